package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/lifecycle"
	"github.com/gputally/gputally/internal/meter"
)

func ParseDelimiter(text string) (rune, error) {
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

// RecordFlags are what imports of allocation records have in common.
type RecordFlags struct {
	data, cluster, source, pool, model, capacity string
	zone, windowStart, windowEnd, rejects        string
	future, dryRun                               bool
}

func (f *RecordFlags) Add(cmd *cobra.Command, source string) {
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "data `DIR`ectory, made where it is missing")
	flags.StringVar(&f.cluster, "cluster", "", "`NAME` of the cluster that the records are of")
	flags.StringVar(&f.source, "source", source, "`NAME` of where the records come from: the same one replaces its own records")
	flags.StringVar(&f.pool, "pool", "", "`NAME` of the pool of GPUs of which no node is told (default: the cluster's)")
	flags.StringVar(&f.capacity, "capacity", "", "how many `GPUS` a pool has, such as 512, or by model a100=512,h100=64; not given: unknown")
	flags.StringVar(&f.model, "model", "", "`MODEL` of GPUs of which the records tell none; the price book prices it")
	flags.StringVar(&f.zone, "time-zone", "UTC", "`ZONE` of times without one, such as Asia/Shanghai")
	flags.StringVar(&f.windowStart, "window-start", "", "first `TIME` that the file is the whole truth of, a full UTC hour; records that start in the window and are missing are deleted")
	flags.StringVar(&f.windowEnd, "window-end", "", "`TIME` after the last; what is open ends there, or now")
	flags.StringVar(&f.rejects, "rejects", "", "write the list of all bad rows to `FILE`")
	flags.BoolVar(&f.future, "allow-future", false, "take records that end after now")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would change, and change nothing")
	_ = cmd.MarkFlagRequired("data")    // fails only for a flag that isn't there
	_ = cmd.MarkFlagRequired("cluster") // likewise
}

// Resolve reads the flags. Its errors are the command line's.
func (f *RecordFlags) Resolve(now time.Time) (*imports.Options, imports.Reading, error) {
	var how imports.Reading
	zone, err := time.LoadLocation(f.zone)
	if err != nil {
		return nil, how, fmt.Errorf("--time-zone %q: no such zone", f.zone)
	}
	how.Zone, how.Horizon = zone, imports.Horizon{NowMS: now.UnixMilli(), Future: f.future}
	if (f.windowStart == "") != (f.windowEnd == "") {
		return nil, how, errors.New("--window-start and --window-end come together")
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

// ImportRecords takes a file's records the way of all batches, and keeps what
// was said once it is in the ledger.
func ImportRecords(ctx context.Context, s *cli.Session, file string, f *RecordFlags, o *imports.Options, how imports.Reading, read readRecords) (err error) {
	s.Resumes = true
	records, err := readRecordFile(ctx, file, how, read)
	if err != nil {
		return err
	}
	var a *app.Access
	if f.dryRun {
		a, err = app.Open(ctx, s, f.data, true)
	} else {
		a, err = app.OpenOrCreate(ctx, s, f.data)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.Clock, Log: s.Log, StopTimeout: app.StopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	o.Partial = len(records.Bad) > 0
	run := &recordRun{s: s, a: a, dataDir: f.data, o: o, dryRun: f.dryRun}
	if err := run.start(ctx, group); err != nil {
		return err
	}
	plan, sent, err := run.carryOut(ctx, records)
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

// recordRun is one import run on an open ledger.
type recordRun struct {
	s       *cli.Session
	a       *app.Access
	dataDir string
	o       *imports.Options
	p       *app.Pipeline
	sp      *spool.Spool
	dryRun  bool
}

// start runs what carries batches into the ledger, and waits until what a run
// before left on its way is there.
func (r *recordRun) start(ctx context.Context, group *lifecycle.Group) (err error) {
	r.a.Config.Ledger.KeepMapping = true
	if r.p, err = app.NewPipeline(ctx, r.s, r.a, group); err != nil {
		return err
	}
	if r.a.Dir != nil {
		if err := r.p.StartIngest(); err != nil {
			return err
		}
	}
	_, r.sp, err = r.p.NewCollector(app.CollectorOptions{
		Id: app.ImportSpool, Cluster: app.ImportSpool, Slot: meter.HourMS * time.Millisecond, Policy: spool.Block,
		Dir: filepath.Join(r.dataDir, app.SpoolDir, app.ImportSpool),
	})
	if err != nil {
		return err
	}
	return r.arrive(ctx)
}

func (r *recordRun) arrive(ctx context.Context) error {
	if err := r.p.Drained(ctx, r.sp); err != nil {
		return err
	}
	return r.p.Settle(ctx, nil)
}

func (r *recordRun) carryOut(ctx context.Context, records *imports.File) (*imports.Plan, int, error) {
	state, err := imports.Load(ctx, r.a.DB, r.o)
	if err != nil {
		return nil, 0, err
	}
	plan, err := imports.NewPlan(r.o, state, records.Records)
	if err != nil {
		return nil, 0, cli.UsageError(err)
	}
	if err := plan.Check(ctx, r.a.DB); err != nil {
		return nil, 0, err
	}
	if r.dryRun {
		sent, err := plan.Each(func([]byte) error { return nil })
		return plan, sent, err
	}
	sent := 0
	err = r.p.CarryUnder(ctx, plan.Runs(), func() (err error) {
		if sent, err = r.send(ctx, plan); err != nil || sent == 0 {
			return err
		}
		if err := r.arrive(ctx); err != nil {
			return err
		}
		return plan.Arrived(ctx, r.a.DB, sent)
	})
	if err != nil {
		return nil, sent, err
	}
	return plan, sent, plan.Save(ctx, r.a.DB)
}

// send spools the plan's batches.
func (r *recordRun) send(ctx context.Context, plan *imports.Plan) (int, error) {
	bar := cli.NewProgress(r.s.Stderr, r.s.Clock, "import")
	w := spoolWriter{sp: r.sp, wrote: func(n int) { bar.Set(int64(n), int64(plan.Hours())) }}
	sent, err := plan.Each(func(encoded []byte) error { return w.add(ctx, encoded) })
	if err = errors.Join(err, w.flush(ctx)); err != nil {
		return sent, err
	}
	if sent > 0 {
		bar.Done(strconv.Itoa(sent) + " batches spooled")
	}
	return sent, nil
}

// shownRejects is how many bad rows are printed; --rejects has all.
const shownRejects = 20

func reportRecords(s *cli.Session, file string, f *RecordFlags, read *imports.File, plan *imports.Plan, sent int) error {
	bad := append(read.Bad, plan.Bad...)
	listRows(s, file, bad, "bad rows")
	listRows(s, file, plan.Skipped, "stretches that somebody saw")
	if f.rejects != "" {
		if err := writeRejects(f.rejects, file, append(slices.Clone(bad), plan.Skipped...)); err != nil {
			return err
		}
	}
	for _, note := range notes(&read.Counts) {
		s.Sayf("%s\n", note)
	}
	if plan.Missed > 0 {
		s.Sayf("%d records of the window are not in the file, and stay: they may be among its bad rows\n", plan.Missed)
	}
	if plan.Open > 0 {
		s.Sayf("%d pools are of unknown capacity: what of them was free is not known, and no check proves it (--capacity tells)\n", plan.Open)
	}
	if plan.Live() {
		s.Sayf("%s\n", filledText(&plan.Filled))
	}
	did := "imported"
	if f.dryRun {
		did = "to import (a dry run: nothing is changed)"
	}
	if _, err := fmt.Fprintf(s.Stdout, "%d rows: %d records new, %d changed, %d deleted, %d unchanged; %d batches %s, %d bad rows\n",
		read.Rows, plan.New, plan.Changed, plan.Deleted, plan.Unchanged, sent, did, len(bad)); err != nil {
		return err
	}
	if len(bad) > 0 {
		return cli.Quiet("bad rows")
	}
	return nil
}

// listRows shows the first of what is told of single rows; --rejects has all.
func listRows(s *cli.Session, file string, rows []imports.BadLine, what string) {
	for i, b := range rows {
		if i == shownRejects {
			s.Sayf("… and %d more %s\n", len(rows)-i, what)
			break
		}
		s.Sayf("%s:%d: %s\n", file, b.Line, cli.Printable(b.Reason))
	}
}

// filledText is what records hold of the time that no collector of a live
// cluster told of.
func filledText(f *imports.Filled) string {
	hours := decimal.Zero
	for per, ms := range f.SliceMS {
		hours = hours.Add(decimal.NewFromInt(ms).DivRound(decimal.NewFromInt(int64(per)*meter.HourMS), 9))
	}
	text := fmt.Sprintf("records hold %s GPU-hours that no collector told of: unproven instead of unobserved; what they don't hold stays unobserved", hours)
	if f.ShortMS > 0 {
		text += fmt.Sprintf(" (of them %s in gaps of up to 30 s, where the holders on both sides come first)",
			decimal.NewFromInt(f.ShortMS).DivRound(decimal.NewFromInt(meter.HourMS), 9))
	}
	return text
}

// notes are what rows were counted apart, and why.
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
