package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/billing/prices"
)

func (s *session) anomaliesCommand() *cobra.Command {
	var kind, tenant string
	cmd := &cobra.Command{
		Use:   "anomalies",
		Short: "Idle allocations and off-hours spikes, with what they wasted",
		Long: "Looks the ledger through for episodes that overlap the range and prints them\n" +
			"in time order. Kinds: " + kinds() + ". Costs are list prices of the price book.",
		Example: examples(
			"gputally anomalies --data DIR", "all there are",
			"gputally anomalies --data DIR --kind "+string(episode.IdleAllocation)+" --tenant ml-train --from 2026-10-01 --to 2026-11-01", "what one tenant left idle",
			"gputally anomalies --data DIR --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o, span := dataFlag(cmd), outputFlag(cmd), rangeFlags(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "only this `KIND`: "+kinds())
	cmd.Flags().StringVar(&tenant, "tenant", "", "only the `TENANT`'s")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if kind != "" && !slices.Contains(episode.Kinds(), episode.Kind(kind)) {
			return usageError{fmt.Errorf("kind %q: want %s", kind, kinds())}
		}
		return s.withStore(ctx, *data, func(a *access) error {
			found, err := findAnomalies(ctx, a, span)
			if err != nil {
				return err
			}
			found = slices.DeleteFunc(found, func(e episode.Episode) bool {
				return kind != "" && e.Kind != episode.Kind(kind) || tenant != "" && e.Tenant != tenant
			})
			if err := s.printAnomalies(*o, found); err != nil || len(found) > 0 {
				return err
			}
			return s.sayNothing(ctx, a, *o, span.String())
		})
	})
	return cmd
}

func kinds() string {
	var names []string
	for _, k := range episode.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func findAnomalies(ctx context.Context, a *access, span *timeRange) ([]episode.Episode, error) {
	from, to, ok, err := span.resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	if !span.from.at.IsZero() && !span.to.at.IsZero() && !from.Before(to) {
		return nil, usageError{fmt.Errorf("from %s is not before to %s", from.Format(time.RFC3339), to.Format(time.RFC3339))}
	}
	if !ok {
		return nil, nil
	}
	book, err := a.book(ctx)
	if err != nil {
		return nil, err
	}
	return analyzer.Find(ctx, a.db, a.cfg.Analyzer, listRates{func() *prices.Book { return book }}, from, to)
}

func (s *session) printAnomalies(o output, found []episode.Episode) error {
	switch o {
	case outputCSV:
		return episode.WriteCSV(s.stdout, found)
	case outputJSON:
		return anomaliesExact(found).write(s.stdout, o, false)
	}
	return anomaliesShown(found).write(s.stdout, o, colour(s.stdout))
}

func anomaliesExact(found []episode.Episode) table {
	t := table{columns: append(
		textColumns([]string{"id", "kind", "tenant", "project", "workload", "node", "gpu", "leaf", "start", "end"}),
		exactColumn("wasted_gpu_hours"), exactColumn("wasted_cost"),
		column{name: "currency"}, column{name: "evidence"},
	)}
	for _, e := range found {
		t.rows = append(t.rows, []string{
			e.ID(), string(e.Kind), e.Tenant, e.Project, e.Workload, e.Node, e.GPU, e.Leaf,
			e.Start.UTC().Format(time.RFC3339), e.End.UTC().Format(time.RFC3339),
			e.WastedGPUHours.String(), e.WastedCost.String(), e.Currency, e.Evidence,
		})
	}
	return t
}

// anomaliesShown leaves out what a line of a terminal has no room for.
func anomaliesShown(found []episode.Episode) table {
	t := table{columns: append(textColumns([]string{"kind", "tenant", "workload", "node", "start", "end"}),
		column{name: "gpu_hours", number: true}, column{name: "cost", number: true}, column{name: "currency"})}
	for _, e := range found {
		t.rows = append(t.rows, []string{
			string(e.Kind), e.Tenant, e.Workload, e.Node,
			e.Start.UTC().Format("2006-01-02 15:04"), e.End.UTC().Format("2006-01-02 15:04"),
			grouped(fixed(e.WastedGPUHours.String(), 1)), grouped(fixed(e.WastedCost.String(), 2)), e.Currency,
		})
	}
	return t
}
