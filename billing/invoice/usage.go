package invoice

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/store"
)

// DB reads from the store.
type DB = store.Querier

// Rows of the query that are not usage: capacity, and energy of no slot.
const (
	bucketCapacity     = "capacity"
	bucketUnattributed = "unattributed"
)

// ratingRowsSQL: the ledger as rating rows, hour by hour. It reads the table
// and not its view, so that usage and capacity come from one reading of the
// same rows (C7b). An owner's energy goes to its first bucket that isn't zero.
// A sum that 64 bits may not hold, as its float tells, is more than can be billed.
// Parameters: from, to.
//
//go:embed rating_rows.sql
var ratingRowsSQL string

// hourOfUsage is the whole ledger in one UTC hour.
type hourOfUsage struct {
	hour           time.Time
	rows           []rating.Row
	capacity       []rating.Capacity
	unattributedMJ decimal.Decimal
	quarantined    map[string]error // by tenant, empty for the platform: why not billable
	unpriced       []*rating.MissingModelError
}

// readHours calls visit for the hours of [from, to) with usage, in order; one hour is in memory at a time. Usage
// without a rate in the book is quarantined like usage that can't be billed; without a book rates are not checked.
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

// ledgerRow is a rating row of the store.
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
		h.capacity = append(h.capacity, rating.Capacity{
			Hour: row.Hour, Model: row.Model, Slices: row.Slices,
			SliceMS: row.SliceMS,
		})
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

// commonSlices converts the rows of one key to the same number of slices, the least common multiple: a rating row has
// one (R8), and boards of one model may differ, such as an import's and a collector's. GPU-hours don't change, and
// other tenants' rows have no effect on a tenant's rows, by which its usage copy is compared.
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

// maxCommonSlices is the limit beyond which boards of one model differ too much to be billed.
const maxCommonSlices = 1 << 31

// mixedSlices returns whether boards of some model differ, which is rare.
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

// keyOf is the key by which rows are merged within an hour (R8).
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

// quarantine removes the rows of tenants whose hour can't be billed, or has no rate in the book, and with them the
// platform's: the distribution would depend on unknown amounts.
func (h *hourOfUsage) quarantine(book *prices.Book) {
	whole := !slices.ContainsFunc(h.capacity, func(c rating.Capacity) bool { return c.SliceMS == math.MaxInt64 })
	if book != nil {
		h.unpriced = rating.Unpriced(book, h.hour, h.rows)
	}
	if whole && len(h.unpriced) == 0 && rating.Billable(h.rows) == nil {
		return
	}
	h.quarantined = map[string]error{}
	rows := h.rows
	h.rows = nil
	for len(rows) > 0 { // by tenant
		n := slices.IndexFunc(rows, func(r rating.Row) bool { return r.Tenant != rows[0].Tenant })
		if n < 0 {
			n = len(rows)
		}
		switch err := h.unbillable(book, rows[:n]); {
		case err != nil:
			h.quarantined[rows[0].Tenant] = err
		case rows[0].Tenant != "":
			h.rows = append(h.rows, rows[:n]...)
		}
		rows = rows[n:]
	}
	if h.quarantined[""] == nil {
		h.quarantined[""] = h.setAside()
	}
}

// unbillable returns why a tenant's rows can't be billed.
func (h *hourOfUsage) unbillable(book *prices.Book, rows []rating.Row) error {
	if err := rating.Billable(rows); err != nil || book == nil {
		return err
	}
	if missing := rating.Unpriced(book, h.hour, rows); len(missing) > 0 {
		return missing[0]
	}
	return nil
}

// setAside returns why the platform has no time in the hour, though its own could be billed. A sum that can't be
// counted has precedence over a missing rate.
func (h *hourOfUsage) setAside() error {
	if len(h.unpriced) == 0 || slices.ContainsFunc(slices.Collect(maps.Values(h.quarantined)),
		func(err error) bool { return withheld(err) != ReasonNoRate }) {
		return errSetAside
	}
	return fmt.Errorf("%w: %w", errSetAside, h.unpriced[0])
}

var errSetAside = errors.New("a tenant's time can't be billed, so that nothing of the hour is shared out")

// withheld is the reason for which a document can't be finalised.
func withheld(why error) Reason {
	if rating.NoRate(why) {
		return ReasonNoRate
	}
	return ReasonQuarantined
}

// quarantined are the hours that are left out of a tenant's document, or of the platform's account.
type quarantined struct {
	first time.Time
	hours int
	why   error
	where string // the GPU with the most time of the tenant in the first hour
}

// note adds the quarantined parts of an hour to the tenants' months. It keeps the first hour that can't be counted,
// else the first without a rate.
func (r *run) note(h hourOfUsage) {
	for tenant, why := range h.quarantined {
		if rating.PeriodOf(h.hour, r.book.Location(tenant)) != r.period {
			continue
		}
		q := r.quarantined[tenant]
		if q == nil {
			q = &quarantined{first: h.hour, why: why}
			r.quarantined[tenant] = q
		}
		if withheld(q.why) == ReasonNoRate && withheld(why) != ReasonNoRate {
			q.first, q.why = h.hour, why
		}
		q.hours++
	}
}

// String describes which hours are left out, why, and what to do, in one sentence.
func (q *quarantined) String() string {
	hours := "the hour " + q.first.Format(time.RFC3339) + " is"
	if q.hours > 1 {
		hours = fmt.Sprintf("%d hours, such as %s, are", q.hours, q.first.Format(time.RFC3339))
	}
	if withheld(q.why) == ReasonNoRate {
		return fmt.Sprintf("%s left out until they have a rate: %v", hours, q.why)
	}
	return fmt.Sprintf("%s left out until corrected: %v; most of it is on %s: "+
		"replace that node's batches of the hour with \"gputally import batches\"",
		hours, q.why, q.where)
}

// fill adds what is left out to the month's documents. A tenant without other usage has an empty document.
func (r *run) fill(month *Month) {
	for i := range month.Invoices {
		if q := r.quarantined[month.Invoices[i].Tenant]; q != nil {
			month.Invoices[i].Quarantined, month.Invoices[i].Withheld = q.String(), withheld(q.why)
		}
	}
	for tenant, q := range r.quarantined {
		at, has := slices.BinarySearchFunc(month.Invoices, tenant,
			func(i Invoice, t string) int { return strings.Compare(i.Tenant, t) })
		switch {
		case tenant == "":
			month.Platform.Quarantined, month.Platform.Withheld = q.String(), withheld(q.why)
		case !has:
			empty := rating.NewInvoice(r.book, r.period, tenant)
			empty.Quarantined, empty.Withheld = q.String(), withheld(q.why)
			month.Invoices = slices.Insert(month.Invoices, at, *asDraft(&empty))
		}
	}
}

// mostTimeSQL: by hour and tenant (empty: the platform) the GPU that has the most,
// by what can be billed of time or energy. Parameters: from, to, hours.
//
//go:embed most_time.sql
var mostTimeSQL string

// readMonth calls visit for a month's hours, which adds them to the run, and finds the GPUs that cause quarantined
// hours.
func readMonth(ctx context.Context, db DB, r *run, visit func(hourOfUsage) error) error {
	from, to := r.period.Range()
	if err := readHours(ctx, db, r.book, from, to, visit); err != nil || len(r.quarantined) == 0 {
		return err
	}
	var hours []uint32
	for _, q := range r.quarantined {
		hours = append(hours, uint32(q.first.Unix()))
	}
	slices.Sort(hours)
	type most struct {
		hour                       time.Time
		tenant, cluster, node, gpu string
	}
	args := append(rangeParameters(from, to), store.Named("hours", slices.Compact(hours)))
	fields := func(m *most) []any { return []any{&m.hour, &m.tenant, &m.cluster, &m.node, &m.gpu} }
	return store.Each(ctx, db, "quarantined GPUs", mostTimeSQL, args, fields, func(m *most) error {
		if q := r.quarantined[m.tenant]; q != nil && q.first.Equal(m.hour) {
			q.where = fmt.Sprintf("GPU %q of node %q, cluster %q", m.gpu, m.node, m.cluster)
		}
		return nil
	})
}
