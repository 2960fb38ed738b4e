package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
)

// anomaly is an episode and what people have said of it.
type anomaly struct {
	episode.Episode
	decisions.Marks
}

// findEpisodes returns the range and its episodes; of an empty ledger zero times.
func findEpisodes(ctx context.Context, a *app.Access, span *cli.TimeRange) (found []episode.Episode, from, to time.Time,
	err error,
) {
	from, to, ok, err := app.Resolve(ctx, span, a)
	if err != nil {
		return nil, from, to, err
	}
	if span.Closed() && !from.Before(to) {
		return nil, from, to, cli.UsageError(fmt.Errorf("from %s is not before to %s", from.Format(time.RFC3339),
			to.Format(time.RFC3339)))
	}
	if !ok {
		return nil, time.Time{}, time.Time{}, nil
	}
	book, err := a.Book(ctx)
	if err != nil {
		return nil, from, to, err
	}
	found, err = analyzer.Find(ctx, a.DB, a.Config.Analyzer,
		app.ListRates{InForce: func() *prices.Book { return book }}, from, to)
	return found, from, to, err
}

// findAnomalies returns the episodes of the range, without marks.
func findAnomalies(ctx context.Context, a *app.Access, span *cli.TimeRange) ([]anomaly, error) {
	found, _, _, err := findEpisodes(ctx, a, span)
	anomalies := make([]anomaly, len(found))
	for i, e := range found {
		anomalies[i].Episode = e
	}
	return anomalies, err
}

func (a anomaly) state() string {
	if a.Open {
		return "open"
	}
	return "closed"
}

// until is the mute's end; empty: it is not muted.
func (a anomaly) until() string {
	if !a.Muted() {
		return ""
	}
	return a.MutedUntil.UTC().Format(time.RFC3339)
}

func anomaliesExact(found []anomaly) cli.Table {
	t := cli.Table{Columns: cli.Columns("id", "kind", "tenant", "project", "workload", "node", "gpu", "leaf",
		"start", "end", "wasted_gpu_hours exact", "wasted_cost exact", "currency", "cause", "grade", "leaves number",
		"user", "evidence", "state", "acknowledged_by", "muted_until", "mute_owner", "mute_reason", "judged", "severity",
		"alerted", "parent")}
	for _, e := range found {
		t.Rows = append(t.Rows, []string{
			e.ID(), string(e.Kind), e.Tenant, e.Project, e.Workload, e.Node, e.At().GPU, e.At().Leaf,
			e.Start.UTC().Format(time.RFC3339), e.End.UTC().Format(time.RFC3339),
			e.WastedGPUHours.String(), e.WastedCost.String(), e.Currency, e.Cause, string(e.Grade),
			strconv.Itoa(len(e.Leaves)), e.User, e.Evidence,
			e.state(), e.AcknowledgedBy, e.until(), e.MuteOwner, e.MuteReason, e.Judged,
			e.Severity.String(), e.AlertedText(), e.Parent,
		})
	}
	return t
}

// anomaliesShown leaves out what a line of a terminal has no room for.
func anomaliesShown(found []anomaly) cli.Table {
	t := cli.Table{Columns: cli.Columns("severity", "alerted", "kind", "tenant", "workload_or_node", "start", "end",
		"gpu_hours number", "cost number", "currency", "state", "acknowledged_by", "muted_until", "judged", "id")}
	for _, e := range found {
		alerted := ""
		if !e.Alerted.IsZero() {
			alerted = e.Alerted.UTC().Format("01-02 15:04")
		}
		t.Rows = append(t.Rows, []string{
			e.Severity.String(), alerted, string(e.Kind), e.Tenant, e.Subject(),
			minute(e.Start), minute(e.End), cli.Grouped(cli.Fixed(e.GPUHours().String(), 1)), CostShown(&e.Episode), e.Currency,
			e.state(), e.AcknowledgedBy, e.until(), e.Judged, e.ID(),
		})
	}
	return t
}

// CostShown is the cost for reading; empty where there is none.
func CostShown(e *episode.Episode) string {
	if e.Currency == "" {
		return ""
	}
	return cli.Grouped(cli.Fixed(e.WastedCost.String(), 2))
}

// Anomalies prints the findings of a kind and of a tenant; empty: all. The terminal's table has muted ones, and
// what belongs to a pattern or an outage, only where asked for.
func Anomalies(ctx context.Context, s *cli.Session, kind, tenant string, muted, all bool) error {
	return app.WithStore(ctx, s, func(a *app.Access) error {
		found, err := findAnomalies(ctx, a, &s.Range)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(e anomaly) bool {
			return kind != "" && e.Kind != episode.Kind(kind) || tenant != "" && e.Tenant != tenant
		})
		marks, err := projection.Findings(ctx, a.DB)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		for i := range found {
			e := &found[i]
			e.Marks = marks.Marks(app.FindingOf(&e.Episode), now)
		}
		if s.Format != cli.AsTable {
			return s.Print(anomaliesExact(found))
		}
		if len(found) == 0 {
			if err := s.Print(anomaliesShown(found)); err != nil {
				return err
			}
			return app.SayNothing(ctx, s, a, s.Range.String())
		}
		return showAnomalies(s, found, muted, all)
	})
}

// showAnomalies prints the table, and how many findings it leaves out.
func showAnomalies(s *cli.Session, found []anomaly, muted, all bool) error {
	var shown []anomaly
	var hidden, summed int
	for _, e := range found {
		switch {
		case e.Muted() && !muted:
			hidden++
		case e.Parent != "" && !all:
			summed++
		default:
			shown = append(shown, e)
		}
	}
	err := s.Print(anomaliesShown(shown))
	if err == nil && summed > 0 {
		err = s.Writef("\nsummed up in others: %s (--all shows them)\n", plural.Of(summed, "finding"))
	}
	if err == nil && hidden > 0 {
		err = s.Writef("\nmuted and not shown: %s (--muted shows them)\n", plural.Of(hidden, "finding"))
	}
	return err
}

// Analyze finds the findings of a range anew and publishes them: what is no longer found is marked as deleted.
func Analyze(ctx context.Context, s *cli.Session) error {
	return app.WithStore(ctx, s, func(a *app.Access) error {
		found, from, to, err := findEpisodes(ctx, a, &s.Range)
		if err != nil {
			return err
		}
		if from.IsZero() {
			return app.SayNothing(ctx, s, a, s.Range.String())
		}
		done, err := analyzer.Publish(ctx, a.DB, s.Clock.Now(), from, to, found)
		if err != nil {
			return err
		}
		return s.Writef("%s from %s to %s: %d written, %d deleted, %d unchanged\n", plural.Of(len(found), "finding"),
			from.Format(time.RFC3339), to.Format(time.RFC3339), done.Written, done.Deleted, done.Kept)
	})
}

// AnomalyKinds returns the kinds of episodes.
func AnomalyKinds() []episode.Kind { return episode.Kinds() }
