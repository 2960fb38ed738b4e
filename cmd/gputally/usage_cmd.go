package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/usage"
)

func (s *session) usageCommand() *cobra.Command {
	var by, tenant string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Who used which GPU, by tenant, project, node, hour …",
		Long: "Prints the ledger, grouped by what --by names: " + strings.Join(usage.Columns(), ", ") + ".\n" +
			"Platform time (free, stranded, unhealthy, unobserved) has an empty tenant. CSV and JSON give\n" +
			"each bucket in slice-milliseconds, exactly; the table gives its share of the row.",
		Example: examples(
			"gputally usage --data DIR --by tenant", "who used what, in all",
			"gputally usage --data DIR --by tenant,day --from 2026-10-01 --to 2026-11-01 --output csv", "a month by day, for a spreadsheet",
			"gputally usage --data DIR --by gpu,hour --tenant ml-train --output json", "where one tenant ran",
		),
		Args: cobra.NoArgs,
	}
	data, o, span := dataFlag(cmd), outputFlag(cmd), rangeFlags(cmd)
	cmd.Flags().StringVar(&by, "by", "tenant", "comma-separated `COLUMNS` to group by")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only the `TENANT`'s usage")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		columns, err := usage.ParseBy(by)
		if err != nil {
			return usageError{err}
		}
		return s.withStore(ctx, *data, func(a *access) error {
			return s.printUsage(ctx, a, *o, span, usage.Query{By: columns, Tenant: tenant})
		})
	})
	return cmd
}

func (s *session) printUsage(ctx context.Context, a *access, o output, span *timeRange, q usage.Query) error {
	from, to, ok, err := span.resolve(ctx, a)
	if err != nil {
		return err
	}
	var rows []usage.Row
	if q.From, q.To = from, to; ok || !from.IsZero() && !to.IsZero() {
		if err := q.Validate(); err != nil {
			return usageError{err}
		}
		if rows, err = usage.Run(ctx, a.db, q); err != nil {
			return err
		}
		if err := s.noteOpenPools(ctx, a, q); err != nil {
			return err
		}
	}
	if o == outputCSV {
		return usage.WriteCSV(s.stdout, q, rows)
	}
	if o == outputTable {
		if err := usageShares(q, rows).write(s.stdout, o, colour(s.stdout)); err != nil || len(rows) > 0 {
			return err
		}
		return s.sayNothing(ctx, a, o, span.String())
	}
	return usageExact(q, rows).write(s.stdout, o, false)
}

// noteOpenPools says on stderr what the figures can't tell (R18).
func (s *session) noteOpenPools(ctx context.Context, a *access, q usage.Query) error {
	open, err := usage.FindOpenPools(ctx, a.db, q)
	if err == nil && open.Pools > 0 {
		s.sayf("%d pools of unknown capacity, in %d pool-hours: their capacity is what was in use at most; what else there was is not known\n", open.Pools, open.Hours)
	}
	return err
}

// bucketNames are the buckets' names in the order of buckets.
var bucketNames = []string{"active", "idle", "unproven", "free", "stranded", "unhealthy", "unobserved"}

func textColumns(names []string) []column {
	columns := make([]column, len(names))
	for i, name := range names {
		columns[i] = column{name: name}
	}
	return columns
}

func usageExact(q usage.Query, rows []usage.Row) table {
	t := table{columns: textColumns(q.By)}
	for _, name := range bucketNames {
		t.columns = append(t.columns, column{name: name + "_slice_ms", number: true})
	}
	t.columns = append(t.columns, column{name: "gpu_hours", number: true}, column{name: "energy_joules", number: true})
	for _, r := range rows {
		cells := slices.Clone(r.By)
		for _, ms := range r.Buckets {
			cells = append(cells, ms.String())
		}
		t.rows = append(t.rows, append(cells, r.GPUHours, r.EnergyJoules()))
	}
	return t
}

// usageShares is for reading: GPU-hours, and what part of them each bucket is.
func usageShares(q usage.Query, rows []usage.Row) table {
	t := table{columns: append(textColumns(q.By), column{name: "gpu_hours", number: true})}
	for _, name := range bucketNames {
		t.columns = append(t.columns, column{name: name + "_%", number: true})
	}
	t.columns = append(t.columns, column{name: "kWh", number: true})
	for _, r := range rows {
		cells := slices.Clone(r.By)
		if i := slices.Index(q.By, "tenant"); i >= 0 {
			cells[i] = shownTenant(r.Kind, cells[i])
		}
		cells = append(cells, grouped(fixed(r.GPUHours, 1)))
		cells = append(cells, shares(r.Buckets)...)
		kwh := new(big.Rat).SetFrac(r.EnergyMJ, big.NewInt(meter.MJPerKWh))
		t.rows = append(t.rows, append(cells, grouped(readable(kwh, 1))))
	}
	return t
}

// platformName stands where a reader expects a tenant's name.
const platformName = "(platform)"

// shownTenant is a tenant for reading; one whose name is empty or could be
// taken for one of ours is in quotes.
func shownTenant(kind, tenant string) string {
	switch {
	case kind == usage.KindPlatform:
		return platformName
	case kind == usage.KindOwner && (tenant == "" || strings.HasPrefix(tenant, "(")):
		return strconv.Quote(tenant)
	}
	return tenant
}

// shares are the parts of the sum in percent, to one place; none: "–".
func shares(ms [7]*big.Int) []string {
	sum := new(big.Int)
	for _, part := range ms {
		sum.Add(sum, part)
	}
	cells := make([]string, len(ms))
	for i, part := range ms {
		cells[i] = "–"
		if part.Sign() > 0 {
			hundredfold := new(big.Int).Mul(part, big.NewInt(100))
			cells[i] = readable(new(big.Rat).SetFrac(hundredfold, sum), 1)
		}
	}
	return cells
}

// fixed is a decimal rounded to places, or as readable has it; what is no
// decimal stays as it is.
func fixed(number string, places int) string {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return number
	}
	return readable(r, places)
}

// mostPlaces is what documents are exact to.
const mostPlaces = 9

// readable rounds to places; what would come to nothing, or to one digit less
// than that, gets as many places as two digits need.
func readable(r *big.Rat, places int) string {
	ten, scaled, at := big.NewRat(10, 1), new(big.Rat).Abs(r), 0
	for ; at < mostPlaces && scaled.Sign() > 0 && scaled.Cmp(big.NewRat(1, 1)) < 0; at++ {
		scaled.Mul(scaled, ten)
	}
	if at <= places {
		return r.FloatString(places)
	}
	return strings.TrimRight(r.FloatString(min(at+1, mostPlaces)), "0")
}

// withStore opens the ledger for one question, and closes it.
func (s *session) withStore(ctx context.Context, dataDir string, ask func(a *access) error) (err error) {
	a, err := s.openStore(ctx, dataDir)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := a.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close ledger: %w", closeErr))
		}
	}()
	return ask(a)
}
