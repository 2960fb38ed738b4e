// Package ask answers questions about a ledger: who used what, what was wasted, why a
// GPU-hour costs what it costs, which GPUs there are, and what was decided.
package ask

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/usage"
)

func printUsage(ctx context.Context, s *cli.Session, a *app.Access, span *cli.TimeRange, q usage.Query) error {
	from, to, ok, err := app.Resolve(ctx, span, a)
	if err != nil {
		return err
	}
	var rows []usage.Row
	if q.From, q.To = from, to; ok || span.Closed() {
		if err := q.Validate(); err != nil {
			return cli.UsageError(err)
		}
		if rows, err = usage.Run(ctx, a.DB, q); err != nil {
			return err
		}
		if err := noteOpenPools(ctx, s, a, q); err != nil {
			return err
		}
	}
	if s.Format == cli.AsCSV {
		return usage.WriteCSV(s.Stdout, q, rows)
	}
	if s.Format == cli.AsTable {
		return showUsage(ctx, s, a, span, q, rows)
	}
	return s.Print(usageExact(q, rows))
}

// showUsage prints the shares below the range that they are of.
func showUsage(ctx context.Context, s *cli.Session, a *app.Access, span *cli.TimeRange, q usage.Query,
	rows []usage.Row,
) error {
	if len(rows) == 0 {
		return errors.Join(s.Print(usageShares(q, rows)), app.SayNothing(ctx, s, a, span.String()))
	}
	if err := s.Writef("%s to %s\n", q.From.UTC().Format(time.RFC3339), q.To.UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	return s.Print(usageShares(q, rows))
}

// noteOpenPools says on stderr what the figures can't tell (R18).
func noteOpenPools(ctx context.Context, s *cli.Session, a *app.Access, q usage.Query) error {
	open, err := usage.FindOpenPools(ctx, a.DB, q)
	if err == nil && open.Pools > 0 {
		s.Sayf("%s of unknown capacity, in %s: their capacity is counted as the most that was in "+
			"use; how many GPUs there were is not known\n", plural.Of(open.Pools, "pool"), plural.Of(open.Hours, "pool-hour"))
	}
	return err
}

// BucketNames are the buckets' names in the order of buckets.
var BucketNames = []string{"active", "idle", "unproven", "free", "stranded", "unhealthy", "unobserved"}

func usageExact(q usage.Query, rows []usage.Row) cli.Table {
	t := cli.Table{Columns: cli.Columns(q.By...)}
	for _, name := range BucketNames {
		t.Columns = append(t.Columns, cli.Columns(name+"_slice_ms number")...)
	}
	t.Columns = append(t.Columns, cli.Columns("gpu_hours number", "energy_joules number")...)
	for _, r := range rows {
		cells := slices.Clone(r.By)
		for _, ms := range r.Buckets {
			cells = append(cells, ms.String())
		}
		t.Rows = append(t.Rows, append(cells, r.GPUHours, r.EnergyJoules()))
	}
	return t
}

// usageShares is for reading: GPU-hours, and what part of them each bucket is.
func usageShares(q usage.Query, rows []usage.Row) cli.Table {
	t := cli.Table{Columns: append(cli.Columns(q.By...), cli.Columns("gpu_hours number")...)}
	for _, name := range BucketNames {
		t.Columns = append(t.Columns, cli.Columns(name+"_% number")...)
	}
	t.Columns = append(t.Columns, cli.Columns("kWh number")...)
	for _, r := range rows {
		cells := slices.Clone(r.By)
		if i := slices.Index(q.By, "tenant"); i >= 0 {
			cells[i] = ShownTenant(r.Kind, cells[i])
		}
		cells = append(cells, cli.Grouped(cli.Fixed(r.GPUHours, 1)))
		cells = append(cells, shares(r.Buckets)...)
		kwh := new(big.Rat).SetFrac(r.EnergyMJ, big.NewInt(meter.MJPerKWh))
		t.Rows = append(t.Rows, append(cells, cli.Grouped(cli.Readable(kwh, 1))))
	}
	return t
}

// PlatformName is shown in place of a tenant's name.
const PlatformName = "(platform)"

// ShownTenant is a tenant for reading; one whose name is empty or could be
// taken for one of ours is in quotes.
func ShownTenant(kind, tenant string) string {
	switch {
	case kind == usage.KindPlatform:
		return PlatformName
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
			cells[i] = cli.Readable(new(big.Rat).SetFrac(hundredfold, sum), 1)
		}
	}
	return cells
}

// Usage prints the ledger, grouped by columns; of one tenant, unless it is empty.
func Usage(ctx context.Context, s *cli.Session, by, tenant string) error {
	columns, err := usage.ParseBy(by)
	if err != nil {
		return cli.UsageError(err)
	}
	return app.WithStore(ctx, s, func(a *app.Access) error {
		return printUsage(ctx, s, a, &s.Range, usage.Query{By: columns, Tenant: tenant})
	})
}
