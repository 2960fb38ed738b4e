package demo

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/cmd/gputally/proof"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

const worstAnomalies = 5

// summary prints capacity, waste, invoices and proof of the month. Its error is
// a quietError when a check failed.
func (d *demo) summary(ctx context.Context, from, to time.Time) error {
	head := fmt.Sprintf("\n%s of a SIMULATED cluster (seed %d)", d.state.Period(), d.state.Seed)
	if err := d.print(head, "\n"); err != nil {
		return err
	}
	// Each asks first and prints then, so that it can be done again.
	for _, part := range []func(context.Context, time.Time, time.Time) error{
		d.capacity, d.anomalies,
		d.invoices, d.proof,
	} {
		if err := d.p.Patiently(ctx, "summary", func() error { return part(ctx, from, to) }); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) print(parts ...string) error {
	return d.s.Writef("%s", strings.Join(parts, ""))
}

func (d *demo) table(title string, t cli.Table) error {
	if err := d.s.Heading(title, ""); err != nil {
		return err
	}
	return d.s.Print(t)
}

// capacity shows the month by bucket, and that the buckets are the capacity.
func (d *demo) capacity(ctx context.Context, from, to time.Time) error {
	rows, err := usage.Run(ctx, d.p.Access.DB, usage.Query{From: from, To: to})
	if err != nil {
		return err
	}
	present, counted := new(big.Int), new(big.Int)
	if err := d.p.Access.DB.QueryRow(ctx, capacitySQL, from, to).Scan(present); err != nil {
		return fmt.Errorf("read capacity: %w", err)
	}
	t := cli.Table{Columns: cli.Columns("bucket", "GPU-hours number", "share number", "who pays wide")}
	total := new(big.Rat)
	if len(rows) > 0 {
		total.SetString(rows[0].GPUHours)
		for _, ms := range rows[0].Buckets {
			counted.Add(counted, ms)
		}
		for i, ms := range rows[0].Buckets {
			share := new(big.Rat)
			if counted.Sign() > 0 {
				share.SetFrac(ms, counted)
			}
			t.Rows = append(t.Rows, []string{
				ask.BucketNames[i], cli.Grouped(new(big.Rat).Mul(share, total).FloatString(2)),
				new(big.Rat).Mul(share, big.NewRat(100, 1)).FloatString(2) + " %", whoPays[i],
			})
		}
	}
	verdict := fmt.Sprintf("%s of %s slice-milliseconds: every one in exactly one bucket", cli.Grouped(counted.String()),
		cli.Grouped(present.String()))
	if counted.Cmp(present) != 0 {
		verdict = fmt.Sprintf("WRONG: %d slice-milliseconds in buckets, capacity %d", counted, present)
	}
	t.Rows = append(t.Rows, []string{"capacity", cli.Grouped(total.FloatString(2)), "100.00 %", verdict})
	return d.table("Capacity", t)
}

const capacitySQL = `
SELECT sum(toUInt128(toUInt64(slices) * present_ms)) FROM usage_hourly FINAL WHERE hour >= ? AND hour < ?`

// whoPays goes with bucketNames.
var whoPays = []string{
	"owner", "owner, shown as waste", "owner, never called idle", "platform", "platform",
	"platform", "platform, reported separately",
}

func (d *demo) anomalies(ctx context.Context, from, to time.Time) error {
	found, err := analyzer.Find(ctx, d.p.Access.DB, d.p.Config.Analyzer,
		app.ListRates{InForce: d.p.Register.Known}, from, to)
	if err != nil {
		return err
	}
	kinds, alerts, devices := map[episode.Kind]int{}, 0, 0
	for _, e := range found {
		if e.Grade == episode.None {
			devices++
		}
		if kinds[e.Kind]++; !e.Alerted.IsZero() {
			alerts++
		}
	}
	found = slices.DeleteFunc(found, func(e episode.Episode) bool { return e.Parent != "" })
	const title = "Worst findings (idle allocations: %d, patterns of them: %d, off-hours spikes: %d, devices: %d; alerts: %d)"
	return d.table(fmt.Sprintf(title,
		kinds[episode.IdleAllocation], kinds[episode.IdlePattern], kinds[episode.OffHoursSpike], devices, alerts),
		worstTable(worstOf(found, worstAnomalies)))
}

// worstOf keeps the most wasteful of each kind, so that one kind can't hide
// the other.
func worstOf(found []episode.Episode, each int) (out []episode.Episode) {
	all := slices.Clone(found)
	slices.SortStableFunc(all, func(a, b episode.Episode) int { return b.WastedGPUHours.Cmp(a.WastedGPUHours) })
	for _, kind := range episode.Kinds() {
		n := 0
		for _, w := range all {
			if w.Kind == kind && n < each {
				out = append(out, w)
				n++
			}
		}
	}
	return out
}

func worstTable(worst []episode.Episode) cli.Table {
	t := cli.Table{Columns: cli.Columns("kind", "tenant", "workload_or_node", "start", "end", "leaves number",
		"GPU-hours number", "cost number", "currency")}
	for _, w := range worst {
		leaves := ""
		if len(w.Leaves) > 0 {
			leaves = strconv.Itoa(len(w.Leaves))
		}
		t.Rows = append(t.Rows, []string{
			string(w.Kind), w.Tenant, w.Subject(), w.Start.UTC().Format("2006-01-02 15:04"),
			w.End.UTC().Format("2006-01-02 15:04"),
			leaves, cli.Grouped(cli.Fixed(w.GPUHours().String(), 1)), ask.CostShown(&w), w.Currency,
		})
	}
	return t
}

func (d *demo) invoices(ctx context.Context, from, _ time.Time) error {
	month, err := d.p.Register.List(ctx, from.Format("2006-01"))
	if err != nil {
		return err
	}
	if err := d.table("Draft invoices, in "+month.Currency, bill.SumTable(month)); err != nil {
		return err
	}
	path, err := export.Chargeback(d.p.Access.Dir.Path(), month)
	if err != nil {
		return err
	}
	return d.print("Chargeback CSV: ", path, "\n")
}

// proof runs every check and says where to look next.
func (d *demo) proof(ctx context.Context, _, _ time.Time) error {
	results, err := proof.Check(ctx, d.p, proof.SampledMessages)
	if err != nil {
		return err
	}
	if err := d.s.Heading("Proof", ""); err != nil {
		return err
	}
	failed := proof.PrintChecks(d.s, results)
	took := d.s.Clock.Since(d.began).Round(100 * time.Millisecond)
	if err := d.print(fmt.Sprintf("\nDone in %s, %s.\n", took, peakMemory()),
		"Try:     ", os.Args[0], " usage --data ", d.p.Access.Dir.Path(), " --by tenant,project --from ",
		d.state.Month.Format(time.DateOnly), " --to ", d.state.End().Format(time.DateOnly), "\n",
		"         ", os.Args[0], " invoice show --data ", d.p.Access.Dir.Path(), " --period ",
		d.state.Month.Format("2006-01"), " --tenant NAME\n",
		"         ", os.Args[0], " invoice finalise --data ", d.p.Access.Dir.Path(), " --period ",
		d.state.Month.Format("2006-01"), "\n",
		"Look at: ", d.at(statement.Path), " (statements), ", d.at("/docs"), " (finance API) and ", d.at("/metrics"),
		d.served(), "\n"); err != nil {
		return err
	}
	return failed
}

// served says since when the addresses answer.
func (d *demo) served() string {
	if d.once {
		return ", while demo runs without --once, or standalone on this directory"
	}
	return ""
}

// peakMemory is the greatest resident size of this process and its engine, as
// Linux keeps it.
func peakMemory() string {
	own := PeakOf("self")
	var engine int64
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		children = nil
	}
	for _, file := range children {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(data)) {
			engine += PeakOf(pid)
		}
	}
	if own == 0 {
		return "peak memory unknown"
	}
	return fmt.Sprintf("peak memory %d MB (services %d MB, ClickHouse %d MB)", (own+engine)>>20, own>>20, engine>>20)
}

// PeakOf is the greatest resident size of a process in bytes, as Linux keeps it; 0: unknown.
func PeakOf(pid string) int64 {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}
