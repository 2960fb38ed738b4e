package rating

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/fault"
)

// Options are variants of rating.
type Options struct {
	// Simulate treats an hour without platform rows of a model as supplied: a usage file made by hand rarely contains
	// free time. The ledger always does.
	Simulate bool
	// Observe is called with every charge, in the order of hours; nil: none. It must not block.
	Observe func(Charge)
	// Copy returns the destination of a tenant's usage copy; nil, or nil for a tenant: only its hash is computed.
	Copy func(tenant string) io.Writer
	// Frozen has distribution and supply of the hours it covers; nil: the rows determine them. Every hour with facts
	// in it must be added, with or without rows.
	Frozen *Frozen

	// only rates one tenant; empty: all.
	only string
}

// rates returns whether a tenant is to be rated.
func (o Options) rates(tenant string) bool { return o.only == "" || o.only == tenant }

// MissingModelError is usage of a model for which the price book has no rate.
type MissingModelError struct {
	Model string
	// Hour is the first hour with such usage.
	Hour time.Time
	// Version is the effective hour of the version then in force.
	Version time.Time
	// Book is the price book's name.
	Book string
}

// Class is fault.Conflict, with the price book.
func (*MissingModelError) Class() fault.Class { return fault.Conflict }

// Error contains which model to add where.
func (e *MissingModelError) Error() string {
	return fmt.Sprintf("price model %q at %s: %s has no rate for it in the version effective %s; "+
		"add it under models with a gpu_hour",
		e.Model, e.Hour.Format(time.RFC3339), e.Book, e.Version.Format(time.RFC3339))
}

// BeforeBookError is usage before the price book's first version.
type BeforeBookError struct {
	// Hour is the first one with usage; Start is where the book begins.
	Hour, Start time.Time
	// Book is the price book's name.
	Book string
}

// Class is fault.Conflict, with the price book.
func (*BeforeBookError) Class() fault.Class { return fault.Conflict }

// Error contains from when on the book needs a version.
func (e *BeforeBookError) Error() string {
	return fmt.Sprintf("rate usage at %s: %s starts at %s; add a version that is effective by then",
		e.Hour.Format(time.RFC3339), e.Book, e.Start.Format(time.RFC3339))
}

// NoRate returns whether usage can't be rated because a rate is missing.
func NoRate(err error) bool {
	_, missing := errors.AsType[*MissingModelError](err)
	_, before := errors.AsType[*BeforeBookError](err)
	return missing || before
}

// Rate rates a month of usage. Rows may be outside the month: each counts for the tenants in whose zone its hour
// starts in it. Errors name the row's tenant, project, model and hour, and all models without a rate.
func Rate(book *prices.Book, period Period, rows []Row, options Options) (*Result, error) {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b Row) int { return a.Hour.Compare(b.Hour) })
	rater := NewRater(book, period, options)
	for len(sorted) > 0 {
		count := 1
		for count < len(sorted) && sorted[count].Hour.Equal(sorted[0].Hour) {
			count++
		}
		if err := rater.AddHour(sorted[0].Hour, sorted[:count]); err != nil {
			return nil, err
		}
		sorted = sorted[count:]
	}
	return rater.Finish()
}

// Rater rates a month hour by hour; its memory depends on tenants and prices, not on the number of hours.
type Rater struct {
	book     *prices.Book
	period   Period
	options  Options
	months   map[string]*month
	accounts map[string]*account
	reserved []string // tenants with a reservation in some version, sorted
	platform *platformAccount
	missing  map[string]*MissingModelError
	seen     map[int64]bool
	shared   []SharedHour
	last     time.Time
}

// NewRater returns a rater without usage.
func NewRater(book *prices.Book, period Period, options Options) *Rater {
	r := &Rater{
		book: book, period: period, options: options,
		months: map[string]*month{}, accounts: map[string]*account{},
		missing: map[string]*MissingModelError{}, seen: map[int64]bool{},
	}
	observePlatform := options.Observe
	if options.only != "" {
		observePlatform = nil // a tenant's rows don't determine the platform's account
	}
	r.platform = newPlatformAccount(r.month(""), observePlatform)
	for _, version := range book.Versions {
		for tenant, terms := range version.Tenants {
			if len(terms.Reserved) > 0 && r.options.rates(tenant) && !slices.Contains(r.reserved, tenant) {
				r.reserved = append(r.reserved, tenant)
			}
		}
	}
	slices.Sort(r.reserved)
	return r
}

// month is the period in a tenant's zone; the platform's is the book's.
func (r *Rater) month(tenant string) *month {
	zone := r.book.Location(tenant)
	m := r.months[zone.String()]
	if m == nil {
		m = newMonth(r.period, zone)
		r.months[zone.String()] = m
	}
	return m
}

func (r *Rater) account(tenant string) *account {
	a := r.accounts[tenant]
	if a == nil {
		a = newAccount(tenant, r.month(tenant), r.options)
		r.accounts[tenant] = a
	}
	return a
}

// priced is a merged row with its value.
type priced struct {
	Row
	quantity decimal.Decimal // GPU-hours
	rest     int64           // see gpuHours
	rate     decimal.Decimal // of a whole GPU
	list     decimal.Decimal
	// reportedAs is the part of the GPU that the profile is according to this row, if other rows of its hour
	// contradict; else empty.
	reportedAs string
	// profilePrice is set if the profile has a price of its own.
	profilePrice decimal.Decimal
	byProfile    bool
}

// AddHour rates all rows of one UTC hour; hours must ascend.
func (r *Rater) AddHour(hour time.Time, rows []Row) error {
	if !r.last.IsZero() && !hour.After(r.last) {
		return fmt.Errorf("rate hour %s: it is not after %s", hour.Format(time.RFC3339), r.last.Format(time.RFC3339))
	}
	r.last = hour
	merged, err := merge(rows)
	if err != nil {
		return err
	}
	for _, row := range merged {
		if !row.Hour.Equal(hour) {
			return row.failf("the row is not of hour %s", hour.Format(time.RFC3339))
		}
	}
	r.seen[hour.Unix()] = true
	// The platform's account has its month's hours, whoever is billed for them.
	billed := r.month("").has(hour) || r.frozenIn(hour) ||
		slices.ContainsFunc(merged, func(row Row) bool { return r.month(row.Tenant).has(hour) })
	at := r.book.At(hour)
	if at < 0 && billed {
		return &BeforeBookError{hour.UTC(), r.book.Versions[0].Effective, r.book.Name}
	}
	if at < 0 || !billed && !r.reservedIn(hour) {
		return nil
	}
	values, complete, err := r.price(hour, at, merged)
	if err != nil {
		return err
	}
	if complete {
		r.charge(hour, at, values)
		r.reserve(hour, at, values)
		r.distribute(hour, at, values)
		r.platform.add(hour, at, values)
	}
	return nil
}

// frozenIn returns whether an hour is in the month of a tenant that was given a part of it.
func (r *Rater) frozenIn(hour time.Time) bool {
	frozen := r.options.Frozen.at(hour)
	if frozen == nil {
		return false
	}
	for tenant := range frozen.given {
		if r.month(tenant).has(hour) {
			return true
		}
	}
	return false
}

// reservedIn returns whether an hour is in the month of a tenant with a reservation, which depends on everybody's
// usage.
func (r *Rater) reservedIn(hour time.Time) bool {
	return slices.ContainsFunc(r.reserved, func(tenant string) bool { return r.month(tenant).has(hour) })
}

// price values the rows of an hour; false if a model has no rate, which Finish reports.
func (r *Rater) price(hour time.Time, at int, rows []Row) ([]priced, bool, error) {
	version := &r.book.Versions[at]
	values := make([]priced, 0, len(rows))
	complete := true
	apart := Apart(rows)
	for i, row := range rows {
		value, known, err := priceRow(version, row)
		if apart[i] {
			value.reportedAs = row.ReportedAs()
		}
		switch {
		case err != nil:
			return nil, false, err
		case known:
			values = append(values, value)
			continue
		case r.missing[row.Model] == nil:
			r.missing[row.Model] = &MissingModelError{row.Model, hour.UTC(), version.Effective, r.book.Name}
		}
		complete = false
	}
	return values, complete, nil
}

// priceRow values a row: a MIG profile by its own price, if the book has one, everything
// else by its share of the GPU's slices. false: its model has no rate.
func priceRow(version *prices.Version, row Row) (value priced, known bool, err error) {
	model, known := version.Models[row.Model]
	if !known {
		return priced{}, false, nil
	}
	value = priced{Row: row, rate: model.GPUHour}
	value.quantity, value.rest = gpuHours(row.SliceMS, row.Slices)
	value.list = value.quantity.Mul(model.GPUHour)
	value.profilePrice, value.byProfile = model.Profiles[row.Profile]
	value.byProfile = value.byProfile && row.Tenant != ""
	if value.byProfile && row.ProfileSlices < 1 {
		return priced{}, false, row.failf("profile_slices %d of a profile with a price", row.ProfileSlices)
	}
	return value, true, nil
}

// charge adds an hour to its owners' accounts.
func (r *Rater) charge(hour time.Time, at int, values []priced) {
	for len(values) > 0 {
		count := 1
		for count < len(values) && values[count].Tenant == values[0].Tenant {
			count++
		}
		if tenant := values[0].Tenant; tenant != "" && r.month(tenant).has(hour) {
			r.account(tenant).add(r.book, at, values[:count])
		}
		values = values[count:]
	}
}

// Finish returns the month's result. It fails if a model had no rate.
func (r *Rater) Finish() (*Result, error) {
	if len(r.missing) > 0 {
		all := make([]error, 0, len(r.missing))
		for _, missing := range r.missing {
			all = append(all, missing)
		}
		slices.SortFunc(all, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(all...)
	}
	if r.options.Simulate {
		r.reserveSilentHours()
	}
	result := &Result{Shared: r.shared, MinorUnit: r.book.MinorUnit, Platform: r.platform.finish()}
	for _, tenant := range r.billedTenants() {
		invoice, err := r.account(tenant).finish(r.book, r.period)
		if err != nil {
			return nil, fmt.Errorf("rate %s of tenant %q: %w", r.period, tenant, err)
		}
		result.Invoices = append(result.Invoices, invoice)
	}
	return result, nil
}

// billedTenants have usage, or a minimum or a reservation in a version in force during their month; sorted.
func (r *Rater) billedTenants() []string {
	if r.options.only != "" {
		return []string{r.options.only}
	}
	billed := map[string]bool{}
	for tenant, account := range r.accounts {
		billed[tenant] = account.used
	}
	for i, version := range r.book.Versions {
		for tenant, terms := range version.Tenants {
			owes := terms.HasMinimum || len(terms.Reserved) > 0
			if owes && !billed[tenant] {
				billed[tenant] = slices.ContainsFunc(r.month(tenant).hours, func(h time.Time) bool { return r.book.At(h) == i })
			}
		}
	}
	var tenants []string
	for tenant, yes := range billed {
		if yes {
			tenants = append(tenants, tenant)
		}
	}
	slices.Sort(tenants)
	return tenants
}
