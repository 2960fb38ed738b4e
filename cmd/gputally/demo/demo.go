// Package demo takes a simulated month of a cluster through the whole pipeline and prints
// who used what, what was wasted, what each tenant owes, and the proof.
package demo

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

	"github.com/gputally/gputally/billing/statement"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/source/sim"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/wire"
)

const (
	demoSlot = time.Minute
	// DemoName is the file within the data directory that keeps what a demo was begun with.
	DemoName = "demo.json"
	// demoGCPercent trades memory for time: a month at full speed makes garbage
	// faster than any service.
	demoGCPercent = 200
	simulator     = "sim"
)

// Flags say which month is simulated.
type Flags struct {
	Seed  int64     // of the fleet
	Month cli.Month // empty: the last full one
	Days  int       // the first ones of the month; 0: all
	Once  bool      // stops after the month
}

// begin is what a new directory is begun with.
func (f Flags) begin(now time.Time) (State, error) {
	month, end := app.LastMonth(now)
	if f.Month.Text != "" {
		if !f.Once {
			return State{}, cli.UsageError(fmt.Errorf("month %s: needs --once: only the last full month can go on live",
				f.Month.Text))
		}
		var err error
		if month, err = time.Parse("2006-01", f.Month.Text); err != nil {
			return State{}, cli.UsageError(fmt.Errorf("month: %w", err))
		}
		if !month.Before(end) {
			return State{}, cli.UsageError(fmt.Errorf("month %s: is not over yet", f.Month.Text))
		}
	}
	s := State{Seed: f.Seed, Month: month, Days: f.Days}
	return s, s.Validate()
}

// State is what a demo's directory was begun with. It stays, so that a
// demo that was killed goes on with the same fleet and the same month.
type State struct {
	Seed  int64     `json:"seed"`
	Month time.Time `json:"month"` // its first instant
	// Days is how many days of the month are simulated; 0: all.
	Days int `json:"days,omitempty"`
}

// End is the first instant after the part of the month that is simulated.
func (d State) End() time.Time {
	if d.Days == 0 {
		return d.Month.AddDate(0, 1, 0)
	}
	return d.Month.AddDate(0, 0, d.Days)
}

// Period names that part for people.
func (d State) Period() string {
	month := d.Month.Format("January 2006")
	switch d.Days {
	case 0:
		return month
	case 1:
		return "The first day of " + month
	}
	return fmt.Sprintf("The first %d days of %s", d.Days, month)
}

// Validate refuses more days than the month has.
func (d State) Validate() error {
	if last := d.Month.AddDate(0, 1, -1); d.Days < 0 || d.Days > last.Day() {
		return cli.UsageError(fmt.Errorf("days %d: %s has 1 to %d, and 0 stands for all", d.Days,
			d.Month.Format("January 2006"), last.Day()))
	}
	return nil
}

// demo is a month on its way.
type demo struct {
	s         *cli.Session
	p         *app.Pipeline
	state     State
	at        func(path string) string // of the HTTP server
	once      bool
	collector *collector.Collector
	spool     *spool.Spool
	began     time.Time
}

// Run simulates a month, prints what came of it, and goes on live unless it is to stop.
func Run(ctx context.Context, s *cli.Session, f Flags) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(demoGCPercent)
	}
	begin, err := f.begin(s.Clock.Now())
	if err != nil {
		return err
	}
	cfg, err := app.ConfigOf(s)
	if err != nil {
		return err
	}
	if err := (app.Live{}).Apply(s, &cfg); err != nil {
		return err
	}
	cfg.Cluster.Slot = demoSlot
	began := s.Clock.Now()
	p, server, err := app.StartStandalone(ctx, s, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Access.DB.Close()) }()
	d := &demo{s: s, p: p, at: server.At, once: f.Once, began: began}
	if err = d.prepare(ctx, begin); err == nil {
		err = d.month(ctx)
	}
	if err != nil || f.Once {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return errors.Join(err, p.Group.Stop())
	}
	return d.live(ctx)
}

// prepare fixes seed, month and days for the directory, and makes the simulator.
func (d *demo) prepare(ctx context.Context, begin State) (err error) {
	if d.state, err = loadDemo(d.p.Access.Dir, begin); err != nil {
		return err
	}
	if d.s.Given("seed") && d.state.Seed != begin.Seed {
		return cli.UsageError(fmt.Errorf("seed %d: this directory's demo was begun with seed %d; name another --data",
			begin.Seed, d.state.Seed))
	}
	if d.s.Given("month") && !d.state.Month.Equal(begin.Month) {
		return cli.UsageError(fmt.Errorf("month %s: this directory's demo was begun with %s; name another --data",
			begin.Month.Format("2006-01"), d.state.Month.Format("2006-01")))
	}
	if d.s.Given("days") && d.state.Days != begin.Days {
		return cli.UsageError(
			fmt.Errorf("days %d: this directory's demo was begun with days %d (0: all); name another --data", begin.Days,
				d.state.Days))
	}
	cfg := sim.DefaultConfig()
	cfg.Seed, cfg.WindowFrom, cfg.WindowTo = d.state.Seed, d.state.Month, d.state.Month.AddDate(2, 0, 0)
	src, err := sim.New(cfg, sim.Deps{Registerer: d.p.Registry})
	if err != nil {
		return err
	}
	if err := d.p.KeepOpen(ctx, decisions.Run{
		Cluster: cfg.Cluster, Collector: simulator, Sends: wire.SendsSimulated, SlotMS: demoSlot.Milliseconds(),
		From: cfg.WindowFrom, To: cfg.WindowTo,
	}); err != nil {
		return err
	}
	d.collector, d.spool, err = d.p.NewCollector(app.CollectorOptions{
		ID: simulator, Cluster: cfg.Cluster, Slot: demoSlot, Policy: spool.Block, Source: src,
		Dir: filepath.Join(d.p.Access.Dir.Join(datadir.SpoolDir), simulator),
	})
	return err
}

func loadDemo(dir *datadir.Dir, begin State) (State, error) {
	path := dir.Join(DemoName)
	data, err := os.ReadFile(path)
	if err == nil {
		var state State
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
	return begin, dir.WriteFile(DemoName, data)
}

// month brings the month into the ledger and prints what came of it.
func (d *demo) month(ctx context.Context) error {
	from, to := d.state.Month, d.state.End()
	if err := d.backfill(ctx, d.state.Period()+", simulated", from, to); err != nil {
		return err
	}
	return d.summary(ctx, from, to)
}

// backfill takes [from, to) through the pipeline. The bar shows what is in the
// journal of what will be: generating runs ahead of ingest.
func (d *demo) backfill(ctx context.Context, label string, from, to time.Time) error {
	bar := cli.NewProgress(d.s.Stderr, d.s.Clock, label)
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
	if err := d.p.Settle(ctx); err != nil {
		return err
	}
	bar.Done("in the ledger")
	return nil
}

// follow shows progress until the backfill has ended and ingest has read all of it: nine tenths of the bar are what was
// spooled and no longer waits for ingest.
func (d *demo) follow(ctx context.Context, bar *cli.Progress, spooled <-chan float64, done <-chan error) error {
	part := 0.0
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			part, done = 1, nil
		case part = <-spooled:
		default:
		}
		lag, err := d.p.Lag(ctx)
		if err != nil {
			return err
		}
		st := d.spool.Stats()
		waiting := float64(lag) + float64(st.Records)
		bar.Set(int64(90*part*(1-waiting/max(float64(st.Appended), waiting, 1))), 100)
		if done == nil && waiting == 0 {
			return nil
		}
		if err := clock.Sleep(ctx, d.s.Clock, app.SettlePoll); err != nil {
			return err
		}
	}
}

// live fills the time since the month, so that no gap shows, and goes on. What
// passes while it fills, Follow reads whole.
func (d *demo) live(ctx context.Context) error {
	from, now := d.state.End(), d.s.Clock.Now().UTC().Truncate(demoSlot)
	if from.Before(now) {
		if err := d.s.Writef("\nNow the time from %s until now is simulated, so that nothing is missing when the demo goes "+
			"live. Ctrl-C stops.\n", from.Format(time.DateOnly)); err != nil {
			return errors.Join(err, d.p.Group.Stop())
		}
		if err := d.backfill(ctx, "since then, simulated", from, now); err != nil {
			return errors.Join(err, d.p.Group.Stop())
		}
	}
	d.p.Group.Go("collector "+simulator, func(ctx context.Context) error { return d.collector.Follow(ctx, from) })
	if err := d.s.Writef(
		"\nLive now: a slot a minute. %s has the statements, %s the finance API, %s is for Prometheus. Ctrl-C stops.\n",
		d.at(statement.Path), d.at("/docs"), d.at("/metrics")); err != nil {
		return err
	}
	return d.p.Group.Wait(ctx)
}
