package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/source/sim"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/wire"
)

const (
	demoSlot = time.Minute
	demoName = "demo.json"
	// demoGCPercent trades memory for time: a month at full speed makes garbage
	// faster than any service.
	demoGCPercent = 200
	simulator     = "sim"
)

type demoFlags struct {
	data, listen string
	seed         int64
	days         int // the first ones of the month; 0: all
	once         bool
	changed      func(flag string) bool // was it given?
}

// demoState is what a demo's directory was begun with. It stays, so that a
// demo that was killed goes on with the same fleet and the same month.
type demoState struct {
	Seed  int64     `json:"seed"`
	Month time.Time `json:"month"` // its first instant
	// Days is how many days of the month are simulated; 0: all.
	Days int `json:"days,omitempty"`
}

// end is the first instant after the part of the month that is simulated.
func (d demoState) end() time.Time {
	if d.Days == 0 {
		return d.Month.AddDate(0, 1, 0)
	}
	return d.Month.AddDate(0, 0, d.Days)
}

// period names that part for people.
func (d demoState) period() string {
	month := d.Month.Format("January 2006")
	switch d.Days {
	case 0:
		return month
	case 1:
		return "The first day of " + month
	}
	return fmt.Sprintf("The first %d days of %s", d.Days, month)
}

// validate refuses more days than the month has.
func (d demoState) validate() error {
	if last := d.Month.AddDate(0, 1, -1); d.Days < 0 || d.Days > last.Day() {
		return usageError{fmt.Errorf("days %d: %s has 1 to %d, and 0 stands for all", d.Days, d.Month.Format("January 2006"), last.Day())}
	}
	return nil
}

func (s *session) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A simulated month of a GPU cluster, its bill and its proof",
		Long: "Takes the last full month of a simulated cluster (4 nodes, 32 GPUs, some in MIG, six tenants) through the\n" +
			"whole pipeline: spool, broker, ingest, ledger, analyzer, billing. Prints who used what, what was wasted,\n" +
			"what each tenant owes and the proof that nothing is missing; then goes on live until Ctrl-C. Killed and\n" +
			"started again, it goes on where it was. With --once it stops after the month and exits with 1 when a check failed.",
		Example: examples(
			"gputally demo --once --data /tmp/demo", "the month, then stop",
			"gputally demo --data /tmp/demo", "the month, then live on http://127.0.0.1:9415",
			"gputally demo --once --days 2 --data /tmp/short", "its first two days, for a quick look",
		),
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.data, "data", "", "data `DIR`ectory, made where it is missing")
	cmd.Flags().Int64Var(&f.seed, "seed", 1, "`N` of the fleet: the same seed is the same month")
	cmd.Flags().IntVar(&f.days, "days", 0, "only the first `N` days of the month (default: all)")
	cmd.Flags().BoolVar(&f.once, "once", false, "stop after the month")
	cmd.Flags().StringVar(&f.listen, "listen", "", "loopback `HOST:PORT` of the HTTP endpoint, or unix: its socket alone (default: the configuration's)")
	_ = cmd.MarkFlagRequired("data") // fails only for a flag that isn't there
	f.changed = cmd.Flags().Changed
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error { return s.demo(ctx, f) })
	return cmd
}

// demo is a month on its way.
type demo struct {
	s         *session
	p         *pipeline
	state     demoState
	at        func(path string) string // of the HTTP server
	once      bool
	collector *collector.Collector
	spool     *spool.Spool
	began     time.Time
}

func (s *session) demo(ctx context.Context, f demoFlags) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(demoGCPercent)
	}
	s.resumes = true
	cfg, err := s.config(f.data)
	if err != nil {
		return err
	}
	if err := (standaloneFlags{listen: f.listen}).apply(&cfg); err != nil {
		return err
	}
	cfg.Cluster.Slot = demoSlot
	began := s.clock.Now()
	p, server, err := s.startStandalone(ctx, f.data, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.access.db.Close()) }()
	d := &demo{s: s, p: p, at: server.At, once: f.once, began: began}
	if err = d.prepare(ctx, f); err == nil {
		err = d.month(ctx)
	}
	if err != nil || f.once {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return errors.Join(err, p.group.Stop())
	}
	return d.live(ctx)
}

// prepare fixes seed, month and days for the directory, and makes the simulator.
func (d *demo) prepare(ctx context.Context, f demoFlags) error {
	month, _ := lastMonth(d.s.clock.Now())
	begin := demoState{Seed: f.seed, Month: month, Days: f.days}
	if err := begin.validate(); err != nil {
		return err
	}
	var err error
	if d.state, err = loadDemo(d.p.access.dir, begin); err != nil {
		return err
	}
	if f.changed("seed") && d.state.Seed != f.seed {
		return usageError{fmt.Errorf("seed %d: this directory's demo was begun with seed %d; name another --data", f.seed, d.state.Seed)}
	}
	if f.changed("days") && d.state.Days != f.days {
		return usageError{fmt.Errorf("days %d: this directory's demo was begun with days %d (0: all); name another --data", f.days, d.state.Days)}
	}
	cfg := sim.DefaultConfig()
	cfg.Seed, cfg.WindowFrom, cfg.WindowTo = d.state.Seed, d.state.Month, d.state.Month.AddDate(2, 0, 0)
	src, err := sim.New(cfg, sim.Deps{Registerer: d.p.reg})
	if err != nil {
		return err
	}
	if err := d.p.keepOpen(ctx, decisions.Run{
		Cluster: cfg.Cluster, Collector: simulator, Sends: wire.SendsSimulated, SlotMS: demoSlot.Milliseconds(), From: cfg.WindowFrom, To: cfg.WindowTo,
	}); err != nil {
		return err
	}
	d.collector, d.spool, err = d.p.newCollector(collectorOptions{
		id: simulator, cluster: cfg.Cluster, slot: demoSlot, policy: spool.Block, source: src,
		dir: filepath.Join(d.p.access.dir.Join(spoolDir), simulator),
	})
	return err
}

func loadDemo(dir *datadir.Dir, begin demoState) (demoState, error) {
	path := dir.Join(demoName)
	data, err := os.ReadFile(path)
	if err == nil {
		var state demoState
		if err := json.Unmarshal(data, &state); err != nil {
			return state, fmt.Errorf("read %s: %w", path, err)
		}
		return state, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return begin, fmt.Errorf("read demo: %w", err)
	}
	if data, err = json.Marshal(begin); err != nil {
		return begin, fmt.Errorf("note demo: %w", err)
	}
	return begin, dir.WriteFile(demoName, data)
}

// month brings the month into the ledger and prints what came of it.
func (d *demo) month(ctx context.Context) error {
	from, to := d.state.Month, d.state.end()
	if err := d.backfill(ctx, d.state.period()+", simulated", from, to); err != nil {
		return err
	}
	return d.summary(ctx, from, to)
}

// backfill takes [from, to) through the pipeline. The bar shows what is in the
// journal of what will be: generating runs ahead of ingest.
func (d *demo) backfill(ctx context.Context, label string, from, to time.Time) error {
	bar := newProgress(d.s.stderr, d.s.clock, label)
	spooled := make(chan float64, 1)
	done := make(chan error, 1)
	go func() {
		done <- d.collector.Backfill(ctx, from, to, func(slots, total int) {
			select {
			case <-spooled:
			default:
			}
			spooled <- float64(slots) / float64(max(total, 1))
		})
	}()
	if err := d.follow(ctx, bar, spooled, done); err != nil {
		return err
	}
	if err := d.p.drained(ctx, d.spool); err != nil {
		return err
	}
	before := int64(-1)
	if err := d.p.settle(ctx, func(lag int64) {
		before = max(before, lag)
		bar.Set(90+8*(before-lag)/max(before, 1), 100)
	}); err != nil {
		return err
	}
	bar.Done("in the ledger")
	return nil
}

// follow shows progress until the backfill has ended: nine tenths of the bar
// are what was spooled and no longer waits for ingest.
func (d *demo) follow(ctx context.Context, bar *progress, spooled <-chan float64, done <-chan error) error {
	part := 0.0
	for {
		select {
		case err := <-done:
			return err
		case part = <-spooled:
		default:
		}
		lag, err := d.p.lag(ctx)
		if err != nil {
			return err
		}
		st := d.spool.Stats()
		waiting := float64(lag) + float64(st.Records)
		bar.Set(int64(90*part*(1-waiting/max(float64(st.Appended), waiting, 1))), 100)
		if err := clock.Sleep(ctx, d.s.clock, settlePoll); err != nil {
			return err
		}
	}
}

// live fills the time since the month, so that no gap shows, and goes on. What
// passes while it fills, Follow reads whole.
func (d *demo) live(ctx context.Context) error {
	from, now := d.state.end(), d.s.clock.Now().UTC().Truncate(demoSlot)
	if from.Before(now) {
		if err := d.backfill(ctx, "since then, simulated", from, now); err != nil {
			return errors.Join(err, d.p.group.Stop())
		}
	}
	d.p.group.Go("collector "+simulator, func(ctx context.Context) error { return d.collector.Follow(ctx, from) })
	if _, err := fmt.Fprintf(d.s.stdout, "\nLive now: a slot a minute. %s has the statements, %s the finance API, %s is for Prometheus. Ctrl-C stops.\n", d.at(statement.Path), d.at("/docs"), d.at("/metrics")); err != nil {
		return err
	}
	return d.p.group.Wait(ctx)
}
