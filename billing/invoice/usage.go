package invoice

import (
	"context"
	"math"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/store"
)

// DB is what the package needs of the store.
type DB = store.Querier

// Rows of the query that are not usage: what there was, and energy of no slot.
const (
	bucketCapacity     = "capacity"
	bucketUnattributed = "unattributed"
)

// ratingRowsSQL: the ledger as rating rows, hour by hour. It reads the table
// and not its view, so that usage and capacity come from one reading of the
// same rows (C7b). An owner's energy goes to its first bucket that isn't zero.
// A sum that 64 bits may not hold, as its float tells, is more than can be billed.
// Parameters: from, to.
const ratingRowsSQL = `
SELECT hour, part.1 AS tenant, part.2 AS project, toString(model) AS gpu_model, part.3 AS profile, part.4 AS profile_slices,
    gpu_slices, part.5 AS bucket, if(sum(toFloat64(part.6)) < 9e18, toInt64(sum(part.6)), 9223372036854775807) AS slice_ms,
    if(abs(sum(toFloat64(part.7))) < 9e18, sum(part.7), 9223372036854775807) AS energy
FROM
(
    SELECT hour, model, gpu_slices, arrayJoin(arrayConcat(
        arrayMap((t, p, f, s, a, i, u, e) ->
            (toString(t), toString(p), toString(f), s, 'active', a, if(a > 0 OR i + u = 0, e, toInt64(0))),
            tenant, project, profile, profile_slices, active, idle, unproven, energy_mj),
        arrayMap((t, p, f, s, a, i, e) ->
            (toString(t), toString(p), toString(f), s, 'idle', i, if(a = 0 AND i > 0, e, toInt64(0))),
            tenant, project, profile, profile_slices, active, idle, energy_mj),
        arrayMap((t, p, f, s, a, i, u, e) ->
            (toString(t), toString(p), toString(f), s, 'unproven', u, if(a = 0 AND i = 0 AND u > 0, e, toInt64(0))),
            tenant, project, profile, profile_slices, active, idle, unproven, energy_mj),
        [('', '', '', toUInt16(0), 'free', free, platform_energy_mj),
         ('', '', '', toUInt16(0), 'stranded', stranded, toInt64(0)),
         ('', '', '', toUInt16(0), 'unhealthy', unhealthy, toInt64(0)),
         ('', '', '', toUInt16(0), 'unobserved', unobserved, toInt64(0)),
         ('', '', '', toUInt16(0), 'capacity', toUInt64(slices) * present_ms, toInt64(0)),
         ('', '', '', toUInt16(0), 'unattributed', toUInt64(0), unattributed_mj)])) AS part
    FROM usage_hourly FINAL
    WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}
)
WHERE part.6 > 0 OR part.7 != 0
GROUP BY hour, tenant, project, gpu_model, profile, profile_slices, gpu_slices, bucket
ORDER BY hour, tenant, project, gpu_model, profile, profile_slices, gpu_slices, bucket`

// hourOfUsage is all of the ledger in one UTC hour.
type hourOfUsage struct {
	hour           time.Time
	rows           []rating.Row
	capacity       []rating.Capacity
	unattributedMJ decimal.Decimal
	quarantined    map[string]error // by tenant, the platform's empty: why not billable
	unpriced       []*rating.MissingModelError
}

// readHours hands the hours of [from, to) that have any usage to visit, in
// order; one hour is in memory at a time. Usage that the book has no rate for is
// quarantined as what can't be billed is; without a book, nothing is for that.
func readHours(ctx context.Context, db DB, book *prices.Book, from, to time.Time, visit func(hourOfUsage) error) error {
	args := []any{store.Named("from", from.UTC().Format(time.DateTime)), store.Named("to", to.UTC().Format(time.DateTime))}
	var open hourOfUsage
	err := store.Each(ctx, db, "rating rows", ratingRowsSQL, args, (*ledgerRow).fields, func(l *ledgerRow) error {
		row := l.Row
		row.Hour, row.ProfileSlices, row.Slices = row.Hour.UTC(), int(l.profileSlices), int(l.slices)
		if !row.Hour.Equal(open.hour) {
			if err := open.visit(book, visit); err != nil {
				return err
			}
			open = hourOfUsage{hour: row.Hour}
		}
		open.add(row)
		return nil
	})
	if err != nil {
		return err
	}
	return open.visit(book, visit)
}

// ledgerRow is a rating row as the store has it.
type ledgerRow struct {
	rating.Row
	profileSlices, slices uint16
}

func (l *ledgerRow) fields() []any {
	return []any{
		&l.Hour, &l.Tenant, &l.Project, &l.Model, &l.Profile, &l.profileSlices, &l.slices, &l.Bucket, &l.SliceMS, &l.EnergyMJ,
	}
}

func (h *hourOfUsage) add(row rating.Row) {
	switch row.Bucket {
	case bucketCapacity:
		h.capacity = append(h.capacity, rating.Capacity{Hour: row.Hour, Model: row.Model, Slices: row.Slices, SliceMS: row.SliceMS})
	case bucketUnattributed:
		h.unattributedMJ = h.unattributedMJ.Add(decimal.NewFromInt(row.EnergyMJ))
	default:
		h.rows = append(h.rows, row)
	}
}

func (h *hourOfUsage) visit(book *prices.Book, visit func(hourOfUsage) error) error {
	if h.hour.IsZero() {
		return nil
	}
	h.commonSlices()
	h.quarantine(book)
	return visit(*h)
}

// commonSlices states the rows of one key in the same number of slices, the
// least common multiple: a rating row has one (R8), and boards of one model may
// differ, such as an import's beside a collector's. GPU-hours stay exactly as
// they are, and what others hold changes nothing of a tenant's rows, which its
// usage copy is compared by.
func (h *hourOfUsage) commonSlices() {
	if !h.mixedSlices() {
		return
	}
	common := map[rating.Row]int{}
	for _, row := range h.rows {
		key := keyOf(row)
		common[key] = min(lcm(max(common[key], 1), max(row.Slices, 1)), maxCommonSlices)
	}
	for i := range h.rows {
		row := &h.rows[i]
		if row.Slices == 0 {
			continue
		}
		factor := common[keyOf(*row)] / row.Slices
		row.Slices *= factor
		row.ProfileSlices *= factor
		if common[keyOf(*row)] == maxCommonSlices || row.SliceMS > math.MaxInt64/int64(factor) {
			row.SliceMS = math.MaxInt64 // more than can be billed
			continue
		}
		row.SliceMS *= int64(factor)
	}
}

// maxCommonSlices is where boards of one model differ beyond what can be billed.
const maxCommonSlices = 1 << 31

// mixedSlices tells whether boards of some model differ: most often none do.
func (h *hourOfUsage) mixedSlices() bool {
	slices := map[string]int{}
	for _, row := range h.rows {
		if known, ok := slices[row.Model]; ok && known != row.Slices {
			return true
		}
		slices[row.Model] = row.Slices
	}
	return false
}

// keyOf is what rows are merged by within an hour (R8).
func keyOf(row rating.Row) rating.Row {
	return rating.Row{Tenant: row.Tenant, Project: row.Project, Model: row.Model, Profile: row.Profile, Bucket: row.Bucket}
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
