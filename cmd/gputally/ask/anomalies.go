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
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/plural"
)

func findAnomalies(ctx context.Context, a *app.Access, span *cli.TimeRange) ([]episode.Episode, error) {
	from, to, ok, err := app.Resolve(ctx, span, a)
	if err != nil {
		return nil, err
	}
	if span.Closed() && !from.Before(to) {
		return nil, cli.UsageError(fmt.Errorf("from %s is not before to %s", from.Format(time.RFC3339),
			to.Format(time.RFC3339)))
	}
	if !ok {
		return nil, nil
	}
	book, err := a.Book(ctx)
	if err != nil {
		return nil, err
	}
	return analyzer.Find(ctx, a.DB, a.Config.Analyzer,
		app.ListRates{InForce: func() *prices.Book { return book }}, from, to)
}

func printAnomalies(s *cli.Session, found []episode.Episode) error {
	switch s.Format {
	case cli.AsCSV:
		return episode.WriteCSV(s.Stdout, found)
	case cli.AsJSON:
		return s.Print(anomaliesExact(found))
	}
	return s.Print(anomaliesShown(found))
}

func anomaliesExact(found []episode.Episode) cli.Table {
	t := cli.Table{Columns: cli.Columns("id", "kind", "tenant", "project", "workload", "node", "gpu", "leaf",
		"start", "end", "wasted_gpu_hours exact", "wasted_cost exact", "currency", "cause", "grade", "leaves number",
		"user", "severity", "alerted", "parent", "evidence")}
	for _, e := range found {
		t.Rows = append(t.Rows, []string{
			e.ID(), string(e.Kind), e.Tenant, e.Project, e.Workload, e.Node, e.At().GPU, e.At().Leaf,
			e.Start.UTC().Format(time.RFC3339), e.End.UTC().Format(time.RFC3339),
			e.WastedGPUHours.String(), e.WastedCost.String(), e.Currency, e.Cause, string(e.Grade),
			strconv.Itoa(len(e.Leaves)), e.User, e.Severity.String(), e.AlertedText(), e.Parent, e.Evidence,
		})
	}
	return t
}

// anomaliesShown leaves out what a line of a terminal has no room for.
func anomaliesShown(found []episode.Episode) cli.Table {
	t := cli.Table{Columns: cli.Columns("severity", "alerted", "kind", "tenant", "workload", "start", "end",
		"gpu_hours number", "cost number", "currency")}
	for _, e := range found {
		alerted := ""
		if !e.Alerted.IsZero() {
			alerted = e.Alerted.UTC().Format("01-02 15:04")
		}
		t.Rows = append(t.Rows, []string{
			e.Severity.String(), alerted, string(e.Kind), e.Tenant, e.Workload,
			e.Start.UTC().Format("2006-01-02 15:04"), e.End.UTC().Format("2006-01-02 15:04"),
			cli.Grouped(cli.Fixed(e.WastedGPUHours.String(), 1)), cli.Grouped(cli.Fixed(e.WastedCost.String(), 2)), e.Currency,
		})
	}
	return t
}

// Anomalies prints the findings of a kind and of a tenant; empty: all. A table leaves out the allocations that a
// pattern sums up, unless all is set.
func Anomalies(ctx context.Context, s *cli.Session, kind, tenant string, all bool) error {
	return app.WithStore(ctx, s, func(a *app.Access) error {
		found, err := findAnomalies(ctx, a, &s.Range)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(e episode.Episode) bool {
			return kind != "" && e.Kind != episode.Kind(kind) || tenant != "" && e.Tenant != tenant
		})
		shown := found
		if !all && s.Format == cli.AsTable {
			shown = slices.DeleteFunc(slices.Clone(found), func(e episode.Episode) bool { return e.Parent != "" })
		}
		if err := printAnomalies(s, shown); err != nil {
			return err
		}
		if hidden := len(found) - len(shown); hidden > 0 {
			s.Sayf("%s that the patterns sum up: see --all", plural.Of(hidden, "allocation"))
		}
		if len(found) > 0 {
			return nil
		}
		return app.SayNothing(ctx, s, a, s.Range.String())
	})
}

// AnomalyKinds returns the kinds of episodes.
func AnomalyKinds() []episode.Kind { return episode.Kinds() }
