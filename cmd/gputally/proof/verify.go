// Package proof checks that a ledger is complete and shows its progress: the checks C1 to C9 and the state of every
// stage.
package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/cli"
)

// SampledMessages is verify's default: if 1.5 % of the batches were changed, it is detected in 95 of 100 cases.
const SampledMessages = 200

// Verify runs all checks on the ledger. sample is how many messages of the topic are read again.
func Verify(ctx context.Context, s *cli.Session, sample int) (results []check.Result, err error) {
	open := func(ctx context.Context, s *cli.Session) (*app.Access, error) {
		path, err := settings.Find(s.ConfigPath, s.Data)
		if err != nil {
			return nil, err
		}
		a, err := app.Open(ctx, s)
		if err == nil {
			a.Config.Ledger.CompareMapping = path != ""
		}
		return a, err
	}
	err = app.WithPipeline(ctx, s, open, func(p *app.Pipeline) error {
		if err := p.OpenRegister(ctx); err != nil {
			return err
		}
		if p.Access.Dir == nil {
			results, err = checkLive(ctx, p, sample)
			return err
		}
		if _, err := p.Projection.Project(ctx); err != nil && !errors.Is(err, projection.ErrForeign) {
			return err
		}
		if _, err := p.Ledger.Pass(ctx); err != nil && !ledger.Damaged(err) {
			return err
		}
		results, err = Check(ctx, p, sample)
		return err
	})
	return results, err
}

// checkLive is Check of a ledger that is being updated: a check may read two tables at two instants, so a failed
// check counts only if it fails again once ingest has caught up.
func checkLive(ctx context.Context, p *app.Pipeline, sample int) (results []check.Result, err error) {
	for range verifyAttempts {
		if err := p.Settle(ctx); err != nil && !ledger.Damaged(err) {
			return nil, err
		}
		if results, err = Check(ctx, p, sample); err != nil || check.NoneFailed(results) {
			break
		}
	}
	return results, err
}

const verifyAttempts = 3

// sampleFetchBytes keeps a fetch for one message small; a larger batch arrives alone.
const sampleFetchBytes = 64 << 10

// Check runs all checks, with a progress bar.
func Check(ctx context.Context, p *app.Pipeline, sample int) ([]check.Result, error) {
	months, err := months(ctx, p)
	if err != nil {
		return nil, err
	}
	checks, err := checks(p, months, sample)
	if err != nil {
		return nil, err
	}
	bar := cli.NewProgress(p.Session.Stderr, p.Session.Clock, "verify")
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

// proveNothing marks passed checks of an empty ledger that checked nothing as not proven.
func proveNothing(results []check.Result) {
	for i := range results {
		if r := &results[i]; r.OK && r.Checked == 0 {
			r.NotProve("nothing to check")
		}
	}
}

// shownCheck shows the progress of a check, and waits while the engine is unavailable.
type shownCheck struct {
	check.Check
	p     *app.Pipeline
	begin func()
}

// Run runs the check.
func (c shownCheck) Run(ctx context.Context) (res check.Result, err error) {
	c.begin()
	err = c.p.Patiently(ctx, "check "+c.Name(), func() (err error) {
		res, err = c.Check.Run(ctx)
		return err
	})
	return res, err
}

// checks are C1 to C9 on this ledger, for its months.
func checks(p *app.Pipeline, months []string, sample int) ([]check.Check, error) {
	judge, err := ingest.New(p.Config.Ingest, ingest.Deps{ // it ingests nothing: its metrics are not exposed
		Store: p.Access.DB, Origins: p.Follow(), Clusters: p.OwnCluster(), Clock: p.Session.Clock, Log: p.Session.Log,
		Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return nil, err
	}
	all := ingest.Checks(ingest.CheckDeps{
		Store: p.Access.DB, Ingester: judge, Sample: sample,
		Message: func(ctx context.Context, partition int, offset int64) (broker.Message, error) {
			reader := p.Client.Reader(broker.TopicSamples, partition, offset, offset+1,
				broker.ConsumerOptions{MaxBytes: sampleFetchBytes})
			defer reader.Close()
			msgs, err := reader.Read(ctx, 1)
			if err != nil {
				return broker.Message{}, err
			}
			return msgs[0], nil
		},
		Offsets: func(ctx context.Context) ([]broker.PartitionOffsets, error) {
			return p.Client.Offsets(ctx, broker.TopicSamples, p.Config.Ingest.Group)
		},
		Spools: func(context.Context) ([]ingest.SpoolState, error) { return spoolStates(p.Session.Data) },
	})
	all = slices.Concat(all, p.Ledger.Checks(), billing.Checks(p.Register.Drafts, p.Register, months))
	slices.SortStableFunc(all, func(a, b check.Check) int { // C9 before C10
		return cmp.Or(cmp.Compare(len(a.Name()), len(b.Name())), cmp.Compare(a.Name(), b.Name()))
	})
	return append(all, p.Projection.Checks()...), nil
}

// monthsSQL reads the first and the last hour of the ledger in each calendar month of UTC: in any zone, an hour
// between them is in the local month of one of the two.
const monthsSQL = `
SELECT min(hour) AS first, max(hour) AS last FROM usage_hourly FINAL
WHERE present_ms > 0 GROUP BY toYYYYMM(hour)`

// months are the months of which any tenant has hours in the ledger, by its own zone (R17).
func months(ctx context.Context, p *app.Pipeline) ([]string, error) {
	var rows []struct {
		First time.Time `ch:"first"`
		Last  time.Time `ch:"last"`
	}
	if err := p.Access.DB.Select(ctx, &rows, monthsSQL); err != nil {
		return nil, fmt.Errorf("read months of the ledger: %w", err)
	}
	var ends []time.Time
	for _, r := range rows {
		ends = append(ends, r.First, r.Last)
	}
	var months []string
	for _, period := range rating.Periods(ends, p.Register.Known().Zones()) {
		months = append(months, period.String())
	}
	return months, nil
}

// PrintChecks prints the checks in the format of --output, and returns an error if one failed.
func PrintChecks(s *cli.Session, results []check.Result) error {
	var err error
	switch s.Format {
	case cli.AsJSON:
		err = check.WriteJSON(s.Stdout, results)
	case cli.AsCSV:
		err = check.WriteCSV(s.Stdout, results)
	default:
		var b strings.Builder
		if err = check.WriteTable(&b, results); err == nil {
			err = s.Writef("%s", b.String())
		}
	}
	if err == nil && !check.NoneFailed(results) {
		return cli.Quiet("a check failed")
	}
	return err
}
