package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"
	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
)

func parseDelimiter(text string) (rune, error) {
	switch text {
	case "auto":
		return 0, nil
	case "tab", `\t`:
		return '\t', nil
	}
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) || r == utf8.RuneError || r == '"' || r == '\n' || r == '\r' {
		return 0, fmt.Errorf("--delimiter %q: want one character, tab, or auto", text)
	}
	return r, nil
}

// RecordFlags are the common flags of imports of allocation records.
type RecordFlags struct {
	cluster, source, pool, model, capacity string
	zone, windowStart, windowEnd, rejects  string
	future, dryRun                         bool
}

// Define defines the flags; source is the default of --source.
func (f *RecordFlags) Define(flags *pflag.FlagSet, source string) {
	flags.StringVar(&f.cluster, "cluster", "", "`NAME` of the records' cluster")
	flags.StringVar(&f.source, "source", source,
		"`NAME` of where the records come from: the same one replaces its own records")
	flags.StringVar(&f.pool, "pool", "", "`NAME` of the pool of GPUs whose node is unknown (default: the cluster's)")
	flags.StringVar(&f.capacity, "capacity", "",
		"how many `GPUS` a pool has, such as 512, or by model a100=512,h100=64; not given: unknown")
	flags.StringVar(&f.model, "model", "", "`MODEL` of GPUs in records without one; it needs a rate in the price book")
	flags.StringVar(&f.zone, "time-zone", "UTC", "`ZONE` of times without one, such as Asia/Shanghai")
	flags.StringVar(&f.windowStart, "window-start", "",
		"`TIME` from which on the file is complete, a full UTC hour; records that start in the window and are "+
			"missing are deleted")
	flags.StringVar(&f.windowEnd, "window-end", "", "`TIME` until which the file is complete; running jobs end there, or now")
	flags.StringVar(&f.rejects, "rejects", "", "write the list of all bad rows to `FILE`")
	flags.BoolVar(&f.future, "allow-future", false, "accept records that end after now")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would change, and change nothing")
}

// resolve evaluates the flags. Its errors are usage errors.
func (f *RecordFlags) resolve(now time.Time) (*imports.Options, imports.Reading, error) {
	var how imports.Reading
	zone, err := time.LoadLocation(f.zone)
	if err != nil {
		return nil, how, fmt.Errorf("--time-zone %q: unknown zone; want one such as Europe/Berlin", f.zone)
	}
	how.Zone, how.Horizon = zone, imports.Horizon{NowMS: now.UnixMilli(), Future: f.future}
	if (f.windowStart == "") != (f.windowEnd == "") {
		return nil, how, errors.New("give both --window-start and --window-end, or neither")
	}
	for _, bound := range []struct {
		name, text string
		into       *int64
	}{{"--window-start", f.windowStart, &how.WindowFromMS}, {"--window-end", f.windowEnd, &how.WindowToMS}} {
		if bound.text == "" {
			continue
		}
		if *bound.into, err = imports.ParseTime(bound.text, zone); err != nil {
			return nil, how, fmt.Errorf("%s: %w", bound.name, err)
		}
	}
	o := &imports.Options{
		Cluster: f.cluster, Source: f.source, Pool: f.pool, Model: f.model,
		WindowFromMS: how.WindowFromMS, WindowToMS: how.WindowToMS, NowMS: now.UnixMilli(),
	}
	if o.Pool == "" {
		o.Pool = f.cluster
	}
	if o.Capacity, err = imports.ParseCapacity(f.capacity); err != nil {
		return nil, how, fmt.Errorf("--capacity %w", err)
	}
	return o, how, o.Validate()
}

// readRecords reads a file of records.
type readRecords func(io.Reader, imports.Reading) (*imports.File, error)

// importRecords imports a file's records, and stores the published state once they are in the ledger.
func importRecords(ctx context.Context, s *cli.Session, file string, f *RecordFlags, o *imports.Options,
	how imports.Reading, read readRecords,
) error {
	records, err := readRecordFile(ctx, file, how, read)
	if err != nil {
		return err
	}
	open := app.OpenOrCreate
	if f.dryRun {
		open = app.Open
	}
	o.Partial = len(records.Bad) > 0
	var plan *imports.Plan
	var sent int
	err = app.WithPipeline(ctx, s, open, func(p *app.Pipeline) (err error) {
		c, err := newCarrier(p)
		if err != nil {
			return err
		}
		if err := c.arrive(ctx); err != nil { // batches of an earlier run
			return err
		}
		plan, sent, err = carryRecords(ctx, c, o, records, f.dryRun)
		return err
	})
	var refused *imports.RefusedError
	if errors.As(err, &refused) {
		return cli.UsageError(err)
	}
	if err != nil {
		return err
	}
	return reportRecords(s, file, f, records, plan, sent)
}

func readRecordFile(ctx context.Context, file string, how imports.Reading, read readRecords) (*imports.File, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("read records: %w", err))
	}
	defer in.Close()
	records, err := read(bounded.Reader(ctx, in), how)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("read %s: %w", file, err))
	}
	return records, nil
}

// carryRecords plans the changes of the records, and sends them unless it is a dry run.
func carryRecords(ctx context.Context, c carrier, o *imports.Options, records *imports.File,
	dryRun bool,
) (*imports.Plan, int, error) {
	db := c.p.Access.DB
	state, err := imports.Load(ctx, db, o)
	if err != nil {
		return nil, 0, err
	}
	plan, err := imports.NewPlan(o, state, records.Records)
	if err != nil {
		return nil, 0, cli.UsageError(err)
	}
	if err := plan.Check(ctx, db); err != nil {
		return nil, 0, err
	}
	if dryRun {
		sent, err := plan.Each(func([]byte) error { return nil })
		return plan, sent, err
	}
	sent := 0
	err = c.p.CarryUnder(ctx, plan.Runs(), func() (err error) {
		if sent, err = c.sendPlan(ctx, plan); err != nil || sent == 0 {
			return err
		}
		if err := c.arrive(ctx); err != nil {
			return err
		}
		return plan.Arrived(ctx, db, sent)
	})
	if err != nil {
		return nil, sent, err
	}
	return plan, sent, plan.Save(ctx, db)
}

// sendPlan spools the plan's batches.
func (c carrier) sendPlan(ctx context.Context, plan *imports.Plan) (int, error) {
	bar, w := c.writer(plan.Hours())
	sent, err := plan.Each(func(encoded []byte) error { return w.add(ctx, encoded) })
	if err = errors.Join(err, w.flush(ctx)); err != nil {
		return sent, err
	}
	if sent > 0 {
		bar.Done(plural.Of(sent, "batch") + " spooled")
	}
	return sent, nil
}

// shownRejects is how many bad rows are printed; --rejects writes all.
const shownRejects = 20

func reportRecords(s *cli.Session, file string, f *RecordFlags, read *imports.File, plan *imports.Plan,
	sent int,
) error {
	bad := append(read.Bad, plan.Bad...)
	listRows(s, file, bad, "bad rows")
	listRows(s, file, plan.Skipped, "intervals that a collector reported")
	if f.rejects != "" {
		if err := writeRejects(f.rejects, file, append(slices.Clone(bad), plan.Skipped...)); err != nil {
			return err
		}
	}
	for _, note := range notes(&read.Counts) {
		s.Sayf("%s\n", note)
	}
	if plan.Missed > 0 {
		s.Sayf("%s of the window are not in the file and are kept: the bad rows may be theirs\n",
			plural.Of(plan.Missed, "imported record"))
	}
	if plan.Open > 0 {
		s.Sayf("unknown capacity of %s: their free time is not known, and no check proves their capacity; set it "+
			"with --capacity\n", plural.Of(plan.Open, "pool"))
	}
	if plan.Live() {
		s.Sayf("%s\n", filledText(&plan.Filled))
	}
	did := "imported"
	if f.dryRun {
		did = "to import (a dry run: nothing is changed)"
	}
	if err := s.Writef("%s: %s new, %d changed, %d deleted, %d unchanged; %s %s, %s\n",
		plural.Of(read.Rows, "row"), plural.Of(plan.New, "record"), plan.Changed, plan.Deleted, plan.Unchanged,
		plural.Of(sent, "batch"), did, plural.Of(len(bad), "bad row")); err != nil {
		return err
	}
	if len(bad) > 0 {
		return cli.Quiet("bad rows")
	}
	return nil
}

// listRows prints the first notes on single rows; --rejects writes all of them to a file.
func listRows(s *cli.Session, file string, rows []imports.BadLine, what string) {
	for i, b := range rows {
		if i == shownRejects {
			s.Sayf("… and %d more %s\n", len(rows)-i, what)
			break
		}
		s.Sayf("%s:%d: %s\n", file, b.Line, cli.Printable(b.Reason))
	}
}

// filledText says how many GPU-hours the records fill that no collector of a live cluster
// reported.
func filledText(f *imports.Filled) string {
	hours := decimal.Zero
	for per, ms := range f.SliceMS {
		hours = hours.Add(decimal.NewFromInt(ms).DivRound(decimal.NewFromInt(int64(per)*meter.HourMS), 9))
	}
	text := fmt.Sprintf(
		"records hold %s GPU-hours that no collector reported: unproven instead of unobserved; what they don't hold stays "+
			"unobserved", hours)
	if f.ShortMS > 0 {
		text += fmt.Sprintf(" (of them %s in gaps of up to 30 s, where the holders on both sides come first)",
			decimal.NewFromInt(f.ShortMS).DivRound(decimal.NewFromInt(meter.HourMS), 9))
	}
	return text
}

// notes describes the counts of rows that were handled specially.
func notes(c *imports.Counts) []string {
	var out []string
	for _, n := range []struct {
		count int
		what  string
	}{
		{c.NeverRan, "never started, or ended as they began: they bill nothing"},
		{c.NoGPUs, "held no GPU"},
		{c.Outside, "lie outside of what was asked for"},
		{c.Steps, "are steps of jobs that are listed themselves"},
		{c.Copies, "are copies of others"},
		{c.Superseded, "are replaced by later rows of the same job"},
		{c.Ambiguous, "have a local time that came twice: the first one was taken"},
		{c.InvalidText, "fields are not UTF-8: names have the bytes that aren't written out, such as [xFF]"},
	} {
		if n.count > 0 {
			out = append(out, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	return out
}

// writeRejects lists bad rows as file:line: reason.
func writeRejects(path, file string, bad []imports.BadLine) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriter(out)
	for _, b := range bad {
		if _, err := fmt.Fprintf(w, "%s:%d: %s\n", file, b.Line, strings.ReplaceAll(b.Reason, "\n", " ")); err != nil {
			return fmt.Errorf("write rejects: %w", err)
		}
	}
	return w.Flush()
}

// ImportAllocations imports a file of allocation records: CSV or JSON lines.
func ImportAllocations(ctx context.Context, s *cli.Session, file string, f *RecordFlags, columns,
	delimiter string,
) error {
	o, how, err := f.resolve(s.Clock.Now())
	if err != nil {
		return cli.UsageError(err)
	}
	if how.Columns, err = imports.ParseColumns(columns); err != nil {
		return cli.UsageError(fmt.Errorf("--columns: %w", err))
	}
	if how.Delimiter, err = parseDelimiter(delimiter); err != nil {
		return cli.UsageError(err)
	}
	return importRecords(ctx, s, file, f, o, how, imports.ReadAllocations)
}

// ImportSacct imports what Slurm's sacct prints.
func ImportSacct(ctx context.Context, s *cli.Session, file string, f *RecordFlags, slurmCluster string,
	byNode bool,
) error {
	o, how, err := f.resolve(s.Clock.Now())
	if err != nil {
		return cli.UsageError(err)
	}
	how.SlurmCluster, how.ByNode = slurmCluster, byNode
	return importRecords(ctx, s, file, f, o, how, imports.ReadSacct)
}
