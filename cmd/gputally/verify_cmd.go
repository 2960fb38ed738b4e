package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/lifecycle"
)

func (s *session) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that nothing is missing: checks C1 to C9, and what was decided",
		Long: "Holds spool, topic, journal, raw rows, ledger and invoices against each other, exactly and without\n" +
			"tolerance, and prints one line per check with its figures. Exits with 1 when one fails; n/a is a check that\n" +
			"had nothing to prove, as of a month without prices. What ingest has not read yet is waited for where a\n" +
			"standalone runs.",
		Example: examples(
			"gputally verify --data DIR", "one line per check",
			"gputally verify --data DIR --output json", "for a monitor",
		),
		Args: cobra.NoArgs,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	sample := cmd.Flags().Uint("sample", sampledMessages, "how many messages of the topic are read again and held against the journal, drawn at random; 0: none")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		results, err := s.verify(ctx, *data, int(min(*sample, math.MaxInt32)))
		if err != nil {
			return err
		}
		return s.printChecks(*o, results)
	})
	return cmd
}

// sampledMessages is verify's default: who changed 1.5 % of the batches is found
// in 95 of 100 cases.
const sampledMessages = 200

func (s *session) verify(ctx context.Context, dataDir string, sample int) (results []check.Result, err error) {
	a, err := s.open(ctx, dataDir, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	path, err := findConfig(s.configPath, dataDir)
	if err != nil {
		return nil, err
	}
	a.cfg.Ledger.KeepMapping, a.cfg.Ledger.CompareMapping = true, path != ""
	p, err := s.newPipeline(ctx, a, group)
	if err != nil {
		return nil, err
	}
	if err := p.openRegister(ctx); err != nil {
		return nil, err
	}
	if a.dir != nil {
		if _, err := p.projection.Project(ctx); err != nil && !errors.Is(err, projection.ErrForeign) {
			return nil, err
		}
		if _, err := p.ledger.Pass(ctx); err != nil && !ledger.Damaged(err) {
			return nil, err
		}
		return p.check(ctx, dataDir, sample)
	}
	// Where data come in meanwhile, a check may read two tables at two
	// instants: what fails has to fail again once ingest has caught up.
	for range verifyAttempts {
		if err := p.settle(ctx, nil); err != nil && !ledger.Damaged(err) {
			return nil, err
		}
		if results, err = p.check(ctx, dataDir, sample); err != nil || check.NoneFailed(results) {
			break
		}
	}
	return results, err
}

const verifyAttempts = 3

// sampleFetchBytes keeps a fetch for one message small; a larger batch arrives alone.
const sampleFetchBytes = 64 << 10

// check carries out all checks, with a bar.
func (p *pipeline) check(ctx context.Context, dataDir string, sample int) ([]check.Result, error) {
	months, err := p.months(ctx)
	if err != nil {
		return nil, err
	}
	checks, err := p.checks(dataDir, months, sample)
	if err != nil {
		return nil, err
	}
	bar := newProgress(p.s.stderr, p.s.clock, "verify")
	defer bar.Clear()
	for i := range checks {
		checks[i] = shownCheck{checks[i], p, func() { bar.Set(int64(i), int64(len(checks))) }}
	}
	results, err := check.Run(ctx, checks)
	if len(months) == 0 {
		proveNothing(results)
	}
	return results, err
}

// proveNothing takes the ok off checks of an empty ledger that looked at nothing.
func proveNothing(results []check.Result) {
	for i := range results {
		if r := &results[i]; r.OK && r.Checked == 0 {
			r.NotProve("nothing to check")
		}
	}
}

// shownCheck tells that a check begins, and waits for an engine that is away.
type shownCheck struct {
	check.Check
	p     *pipeline
	begin func()
}

// Run begins and carries out the check.
func (c shownCheck) Run(ctx context.Context) (res check.Result, err error) {
	c.begin()
	err = c.p.patiently(ctx, "check "+c.Name(), func() (err error) {
		res, err = c.Check.Run(ctx)
		return err
	})
	return res, err
}

// checks are C1 to C9 on this ledger, for the months in it.
func (p *pipeline) checks(dataDir string, months []string, sample int) ([]check.Check, error) {
	judge, err := ingest.New(p.cfg.Ingest, ingest.Deps{ // it takes nothing: its metrics are nobody's
		Store: p.access.db, Origins: p.follow(), Clusters: p.ownCluster(), Clock: p.s.clock, Log: p.s.log, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return nil, err
	}
	all := ingest.Checks(ingest.CheckDeps{
		Store: p.access.db, Ingester: judge, Sample: sample,
		Message: func(ctx context.Context, partition int, offset int64) (broker.Message, error) {
			reader := p.client.Reader(broker.TopicSamples, partition, offset, offset+1, broker.ConsumerOptions{MaxBytes: sampleFetchBytes})
			defer reader.Close()
			msgs, err := reader.Read(ctx, 1)
			if err != nil {
				return broker.Message{}, err
			}
			return msgs[0], nil
		},
		Offsets: func(ctx context.Context) ([]broker.PartitionOffsets, error) {
			return p.client.Offsets(ctx, broker.TopicSamples, p.cfg.Ingest.Group)
		},
		Spools: func(context.Context) ([]ingest.SpoolState, error) { return spoolStates(dataDir) },
	})
	of := p.ledger.Checks()
	money := billing.Checks(p.register.Drafts, p.register, months)
	all = append(all, of[:2]...)
	all = append(all, money...)
	all = append(all, of[2:]...)
	return append(all, p.projection.Checks()...), nil
}

// monthsSQL has the first and the last hour of the ledger in each calendar month of
// UTC: in any zone, an hour between them lies in the local month of one of the two.
const monthsSQL = `
SELECT min(hour) AS first, max(hour) AS last FROM usage_hourly FINAL
WHERE present_ms > 0 GROUP BY toYYYYMM(hour)`

// months are those that any tenant has hours of the ledger in, by its own zone (R17).
func (p *pipeline) months(ctx context.Context) ([]string, error) {
	var rows []struct {
		First time.Time `ch:"first"`
		Last  time.Time `ch:"last"`
	}
	if err := p.access.db.Select(ctx, &rows, monthsSQL); err != nil {
		return nil, fmt.Errorf("read months of the ledger: %w", err)
	}
	var ends []time.Time
	for _, r := range rows {
		ends = append(ends, r.First, r.Last)
	}
	var months []string
	for _, period := range rating.Periods(ends, p.register.Known().Zones()) {
		months = append(months, period.String())
	}
	return months, nil
}

func (s *session) printChecks(o output, results []check.Result) error {
	var err error
	switch o {
	case outputJSON:
		err = check.WriteJSON(s.stdout, results)
	case outputCSV:
		err = check.WriteCSV(s.stdout, results)
	default:
		var b strings.Builder
		if err = check.WriteTable(&b, results); err == nil {
			_, err = io.WriteString(s.stdout, printableLines(b.String()))
		}
	}
	if err == nil && !check.NoneFailed(results) {
		return quietError{"a check failed"}
	}
	return err
}

// lastMonth is the last full calendar month before now, UTC.
func lastMonth(now time.Time) (from, to time.Time) {
	now = now.UTC()
	to = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return to.AddDate(0, -1, 0), to
}
