package rating

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Frozen is what was decided of hours when they closed (R17): who was given
// which part of the platform's time, and which models could be supplied. Later
// usage moves neither.
type Frozen struct {
	spans []span
	hours map[int64]*frozenHour
}

type span struct{ from, to time.Time }

type frozenHour struct {
	given    map[string]decimal.Decimal
	supplied map[string]bool
}

// NewFrozen knows of no hour.
func NewFrozen() *Frozen { return &Frozen{hours: map[int64]*frozenHour{}} }

// Cover says that the UTC hours of [from, to) are decided: what is not added
// for them is nothing.
func (f *Frozen) Cover(from, to time.Time) { f.spans = append(f.spans, span{from, to}) }

// Give adds a tenant's part of an hour's platform time; the platform, an empty
// tenant, gives it: its amount is the negative sum of the others.
func (f *Frozen) Give(hour time.Time, tenant string, amount decimal.Decimal) {
	f.hour(hour).given[tenant] = amount
}

// Supply says that an hour's reservations of a model could be supplied.
func (f *Frozen) Supply(hour time.Time, model string) { f.hour(hour).supplied[model] = true }

func (f *Frozen) hour(at time.Time) *frozenHour {
	h := f.hours[at.Unix()]
	if h == nil {
		h = &frozenHour{given: map[string]decimal.Decimal{}, supplied: map[string]bool{}}
		f.hours[at.Unix()] = h
	}
	return h
}

// Hours are those of which something was added, ascending.
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

// Covers tells whether an hour is decided.
func (f *Frozen) Covers(hour time.Time) bool {
	return f != nil && slices.ContainsFunc(f.spans, func(s span) bool { return !hour.Before(s.from) && hour.Before(s.to) })
}

// at is what was decided of an hour; nil: it is still open.
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

// shares are the parts of an hour by tenant, and what the platform gave.
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

// Check is C7e: what an hour's owners were given and what the platform gave sum
// to zero.
func (f *Frozen) Check() error {
	for _, hour := range f.Hours() {
		sum := decimal.Zero
		for _, amount := range f.hours[hour.Unix()].given {
			sum = sum.Add(amount)
		}
		if !sum.IsZero() {
			return fmt.Errorf("check C7e: frozen distribution at %s sums to %s", hour.Format(time.RFC3339), sum)
		}
	}
	return nil
}

// CheckCopy compares what a tenant's usage copy says was decided of the hours
// from from (inclusive) to to (exclusive) with what was: its part of each hour,
// no more and no less, and no supplied hour that was not.
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
				return fmt.Errorf("distribution at %s is %s, frozen is %s", fact.Hour.Format(time.RFC3339), fact.Distribution, amount)
			}
			delete(given, unix)
		}
		return nil
	})
	if err == nil && len(given) > 0 {
		return fmt.Errorf("its part of %d hours that were frozen is not in it", len(given))
	}
	return err
}
