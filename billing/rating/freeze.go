package rating

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// Freeze fixes the distribution and supply of closed hours permanently (R17).
type Freeze struct {
	book  *prices.Book
	text  bytes.Buffer
	line  factLine
	hours []freezeHour
}

// freezeHour is where an hour's lines begin.
type freezeHour struct {
	hour  time.Time
	begin int
}

// NewFreeze returns a Freeze with a price book.
func NewFreeze(book *prices.Book) *Freeze {
	f := &Freeze{book: book}
	_, _ = f.text.Write(freezeFormat.head(&f.line)) // a buffer's Write never fails
	return f
}

// AddHour adds a UTC hour with all its rows. Hours before the book's first version have no facts. Errors:
// MissingModelError, or invalid rows.
func (f *Freeze) AddHour(hour time.Time, rows []Row) error {
	at := f.book.At(hour)
	if at < 0 {
		return nil
	}
	merged, err := merge(rows)
	if err != nil {
		return err
	}
	f.hours = append(f.hours, freezeHour{hour, f.text.Len()})
	version := &f.book.Versions[at]
	values := make([]priced, 0, len(merged))
	for _, row := range merged {
		value, known, err := priceRow(version, row)
		if err != nil {
			return err
		}
		if !known {
			return &MissingModelError{row.Model, hour.UTC(), version.Effective, f.book.Name}
		}
		values = append(values, value)
	}
	if shares, platform := shareOut(version, values); len(shares) > 0 {
		f.add(Fact{Hour: hour, Distribution: platform})
		for _, s := range shares {
			f.add(Fact{Hour: hour, Tenant: s.Tenant, Distribution: s.Amount})
		}
	}
	for _, model := range reservedModels(version) {
		if suppliedModel(version, model, values, false) {
			f.add(Fact{Hour: hour, Supplied: model})
		}
	}
	return nil
}

// Text has the facts of the UTC hours [from, to); the same usage and book give the same bytes.
func (f *Freeze) Text(from, to time.Time) []byte {
	begin := func(at time.Time) int {
		for _, h := range f.hours {
			if !h.hour.Before(at) {
				return h.begin
			}
		}
		return f.text.Len()
	}
	head := f.text.Len()
	if len(f.hours) > 0 {
		head = f.hours[0].begin
	}
	return slices.Concat(f.text.Bytes()[:head], f.text.Bytes()[begin(from):begin(to)])
}

func (f *Freeze) add(fact Fact) { _, _ = f.text.Write(freezeFormat.line(&f.line, &fact)) } // never fails

// reservedModels are the models with a reservation, sorted.
func reservedModels(version *prices.Version) []string {
	models := map[string]bool{}
	for _, terms := range version.Tenants {
		for _, r := range terms.Reserved {
			models[r.Model] = true
		}
	}
	return slices.Sorted(maps.Keys(models))
}

// Frozen has what was fixed for hours when they were closed (R17): each tenant's part of the platform's time, and
// which models could be supplied. Later usage changes neither.
type Frozen struct {
	spans []span
	hours map[int64]*frozenHour
}

type span struct{ from, to time.Time }

type frozenHour struct {
	given    map[string]decimal.Decimal
	supplied map[string]bool
}

// NewFrozen returns a Frozen without hours.
func NewFrozen() *Frozen { return &Frozen{hours: map[int64]*frozenHour{}} }

// Cover marks the UTC hours of [from, to) as frozen: without facts, they have no distribution and no supply.
func (f *Frozen) Cover(from, to time.Time) { f.spans = append(f.spans, span{from, to}) }

// Give adds a tenant's part of an hour's platform time; for the platform, an empty tenant, the amount is the negative
// sum of the others.
func (f *Frozen) Give(hour time.Time, tenant string, amount decimal.Decimal) {
	f.hour(hour).given[tenant] = amount
}

// Supply records that an hour's reservations of a model could be supplied.
func (f *Frozen) Supply(hour time.Time, model string) { f.hour(hour).supplied[model] = true }

func (f *Frozen) hour(at time.Time) *frozenHour {
	h := f.hours[at.Unix()]
	if h == nil {
		h = &frozenHour{given: map[string]decimal.Decimal{}, supplied: map[string]bool{}}
		f.hours[at.Unix()] = h
	}
	return h
}

// AddFreeze adds the text of a Freeze of the UTC hours [from, to). Errors name the line.
func (f *Frozen) AddFreeze(from, to time.Time, text []byte) error {
	err := freezeFormat.read(bytes.NewReader(text), func(fact Fact) error {
		f.add(fact)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read freeze of %s: %w", from.UTC().Format(time.RFC3339), err)
	}
	f.Cover(from, to)
	return nil
}

// add adds a fact.
func (f *Frozen) add(fact Fact) {
	if fact.Supplied != "" {
		f.Supply(fact.Hour, fact.Supplied)
	} else {
		f.Give(fact.Hour, fact.Tenant, fact.Distribution)
	}
}

// Hours are the hours with facts, ascending.
func (f *Frozen) Hours() []time.Time {
	if f == nil {
		return nil
	}
	list := make([]time.Time, 0, len(f.hours))
	for unix := range f.hours {
		list = append(list, time.Unix(unix, 0).UTC())
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// Covers returns whether an hour is frozen.
func (f *Frozen) Covers(hour time.Time) bool {
	return f != nil && slices.ContainsFunc(f.spans, func(s span) bool { return !hour.Before(s.from) && hour.Before(s.to) })
}

// at returns the facts of an hour; nil: the hour isn't frozen.
func (f *Frozen) at(hour time.Time) *frozenHour {
	if !f.Covers(hour) {
		return nil
	}
	if h := f.hours[hour.Unix()]; h != nil {
		return h
	}
	return &frozenHour{}
}

// Share is a tenant's part of an hour's platform time.
type Share struct {
	Tenant string
	Amount decimal.Decimal
}

// shares are the parts of an hour by tenant, and the platform's.
func (h *frozenHour) shares() (list []Share, platform decimal.Decimal) {
	for tenant, amount := range h.given {
		if tenant == "" {
			platform = amount
		} else {
			list = append(list, Share{tenant, amount})
		}
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return list, platform
}

// Check checks C7e: the parts of an hour's owners and the platform sum to zero.
func (f *Frozen) Check() error {
	for _, hour := range f.Hours() {
		sum := decimal.Zero
		for _, amount := range f.hours[hour.Unix()].given {
			sum = sum.Add(amount)
		}
		if !sum.IsZero() {
			return fmt.Errorf("check C7e: frozen distribution at %s sums to %s, want 0", hour.Format(time.RFC3339), sum)
		}
	}
	return nil
}

// CheckCopy compares the facts in a tenant's usage copy of the hours from from (inclusive) to to (exclusive) with the
// frozen ones: its part of each hour, no more and no less, and no supplied hour that was not.
func (f *Frozen) CheckCopy(tenant string, from, to time.Time, text io.Reader) error {
	given := map[int64]decimal.Decimal{}
	for unix, hour := range f.hours {
		if amount, ok := hour.given[tenant]; ok && unix >= from.Unix() && unix < to.Unix() {
			given[unix] = amount
		}
	}
	err := ReadCopy(tenant, text, func(fact Fact) error {
		unix := fact.Hour.Unix()
		switch {
		case fact.Usage:
		case fact.Supplied != "":
			if hour := f.hours[unix]; hour == nil || !hour.supplied[fact.Supplied] {
				return fmt.Errorf("%s was not supplied at %s", fact.Supplied, fact.Hour.Format(time.RFC3339))
			}
		default:
			if amount, ok := given[unix]; !ok || !amount.Equal(fact.Distribution) {
				return fmt.Errorf("distribution at %s is %s, frozen is %s", fact.Hour.Format(time.RFC3339), fact.Distribution,
					amount)
			}
			delete(given, unix)
		}
		return nil
	})
	if err == nil && len(given) > 0 {
		return fmt.Errorf("the frozen distribution of %d hours is missing", len(given))
	}
	return err
}
