package rating

import (
	"cmp"
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
