package statement

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/store"
)

// groupsSQL: usage by what group names, summed exactly: by the slices of a GPU
// inside, as GPU-hours cut at nine places outside. Those by time and by model are
// all there are, in their order; the others are the ten with the most time held,
// or, of waste, the most idle time. Parameters: from, to, tenant (empty:
// everything), group.
const groupsSQL = `
SELECT by_values, sum(active_hours), sum(idle_hours), sum(unproven_hours), sum(free_hours), sum(stranded_hours),
    sum(unhealthy_hours), sum(unobserved_hours), sum(mj)
FROM
(
    SELECT multiIf({group:String} = 'hours', [formatDateTime(hour, '%Y-%m-%dT%H:00:00Z', 'UTC')],
            {group:String} = 'workloads', [toString(workload), toString(project)],
            {group:String} = 'users', [toString(` + "`user`" + `)],
            {group:String} = 'waste', [toString(tenant), toString(workload)], [toString(model)]) AS by_values,
        toDecimal128(toUInt64(gpu_slices) * 3600000, 0) AS hour_ms,
        divideDecimal(toDecimal128(sum(toUInt128(active_slice_ms)), 0), hour_ms, 9) AS active_hours,
        divideDecimal(toDecimal128(sum(toUInt128(idle_slice_ms)), 0), hour_ms, 9) AS idle_hours,
        divideDecimal(toDecimal128(sum(toUInt128(unproven_slice_ms)), 0), hour_ms, 9) AS unproven_hours,
        divideDecimal(toDecimal128(sum(toUInt128(free_slice_ms)), 0), hour_ms, 9) AS free_hours,
        divideDecimal(toDecimal128(sum(toUInt128(stranded_slice_ms)), 0), hour_ms, 9) AS stranded_hours,
        divideDecimal(toDecimal128(sum(toUInt128(unhealthy_slice_ms)), 0), hour_ms, 9) AS unhealthy_hours,
        divideDecimal(toDecimal128(sum(toUInt128(unobserved_slice_ms)), 0), hour_ms, 9) AS unobserved_hours,
        toDecimal128(sum(toInt128(energy_mj)), 0) AS mj
    FROM usage
    WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND gpu_slices > 0
        AND ({tenant:String} = '' OR kind = 'owner' AND tenant = {tenant:String})
    GROUP BY by_values, gpu_slices
)
GROUP BY by_values
HAVING (multiIf({group:String} IN ('hours', 'models'), toDecimal128(1, 9), {group:String} = 'waste', sum(idle_hours),
    sum(active_hours) + sum(idle_hours) + sum(unproven_hours)) AS most) > 0
ORDER BY if({group:String} IN ('hours', 'models'), toDecimal128(1, 9), most) DESC, by_values
LIMIT if({group:String} IN ('hours', 'models'), 1000000, 10)`

// episodesSQL: the dearest findings that overlap a range; those of one workload
// at one time, such as of a job on eight GPUs, are one. Parameters: from, to,
// tenant (empty: any).
const episodesSQL = `
SELECT toString(kind), toString(tenant), workload, start, end, toString(currency),
    count() AS leaves, sum(wasted_gpu_hours) AS hours, sum(wasted_cost) AS cost,
    (min((toString(node), toString(gpu), toString(leaf), evidence)) AS least).1, least.2, least.3, least.4
FROM anomalies FINAL
WHERE deleted = 0 AND start < {to:DateTime('UTC')} AND end > {from:DateTime('UTC')}
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY kind, tenant, project, workload, start, end, currency
ORDER BY cost DESC, hours DESC, start, least
LIMIT 8`

// episodeSumsSQL: how many findings there are of each kind. Parameters as above.
const episodeSumsSQL = `
SELECT toString(kind), count(), sum(wasted_gpu_hours)
FROM anomalies FINAL
WHERE deleted = 0 AND start < {to:DateTime('UTC')} AND end > {from:DateTime('UTC')}
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY kind
ORDER BY kind`

// monthsSQL: the ledger's months by UTC, newest first. It reads no rows: the
// table keeps each part's first and last hour.
const monthsSQL = `
SELECT toYYYYMM(hour), min(hour), max(hour)
FROM usage_hourly
GROUP BY toYYYYMM(hour)
ORDER BY toYYYYMM(hour) DESC`

// scope is what usage is asked of.
type scope struct {
	from, to time.Time // UTC hours, to exclusive
	tenant   string    // empty: everything
}

func (s scope) args() []any {
	return []any{
		store.Named("from", s.from.UTC().Format(time.DateTime)), store.Named("to", s.to.UTC().Format(time.DateTime)),
		store.Named("tenant", s.tenant),
	}
}

// group is usage of one combination of values.
type group struct {
	values []string
	hours
}

// groups are usage by hours, workloads, users, waste or models.
func (p *pages) groups(ctx context.Context, by string, s scope) ([]group, error) {
	return store.Select(ctx, p.deps.DB, "usage by "+by, groupsSQL, append(s.args(), store.Named("group", by)),
		func(g *group) []any {
			fields := []any{&g.values}
			for i := range g.by {
				fields = append(fields, &g.by[i])
			}
			return append(fields, &g.energyMJ)
		})
}

// episode is what the analyzer found of a workload at one time, on one leaf or
// several; node, GPU, leaf and evidence are the first one's. Its cost is at list
// price; without a currency no price was known.
type episode struct {
	kind, tenant, workload, currency string
	node, gpu, leaf, evidence        string

	leaves     uint64
	start, end time.Time
	hours      decimal.Decimal
	cost       decimal.Decimal
}

func (p *pages) episodes(ctx context.Context, s scope) ([]episode, error) {
	return store.Select(ctx, p.deps.DB, "episodes", episodesSQL, s.args(), func(e *episode) []any {
		return []any{
			&e.kind, &e.tenant, &e.workload, &e.start, &e.end, &e.currency, &e.leaves, &e.hours, &e.cost,
			&e.node, &e.gpu, &e.leaf, &e.evidence,
		}
	})
}

// episodeSum is all findings of a kind.
type episodeSum struct {
	kind  string
	count uint64
	hours decimal.Decimal
}

func (p *pages) episodeSums(ctx context.Context, s scope) ([]episodeSum, error) {
	return store.Select(ctx, p.deps.DB, "sums of episodes", episodeSumsSQL, s.args(), func(e *episodeSum) []any {
		return []any{&e.kind, &e.count, &e.hours}
	})
}

// span is a UTC month of the ledger with its first and last hour.
type span struct {
	month       uint32
	first, last time.Time
}

func (p *pages) spans(ctx context.Context) ([]span, error) {
	return store.Select(ctx, p.deps.DB, "months", monthsSQL, nil,
		func(s *span) []any { return []any{&s.month, &s.first, &s.last} })
}
