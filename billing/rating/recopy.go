package rating

import (
	"fmt"
	"io"
	"time"

	"github.com/gputally/gputally/billing/prices"
)

// RateCopy rates a tenant's month from its usage copy alone, which contains usage, frozen distribution and supplied
// hours. The invoice's UsageHash is the copy's hash again. observe may be nil.
func RateCopy(book *prices.Book, period Period, tenant string, from io.Reader, observe func(Charge)) (*Invoice, error) {
	rater := NewRater(book, period, Options{Frozen: NewFrozen(), Observe: observe, only: tenant})
	zone := rater.month(tenant)
	hour := copiedHour{rater: rater, tenant: tenant}
	err := ReadCopy(tenant, from, func(fact Fact) error {
		if !zone.has(fact.Hour) {
			return fmt.Errorf("hour %s is not in %s in the zone %s", fact.Hour.Format(time.RFC3339), period,
				book.Location(tenant))
		}
		return hour.add(fact)
	})
	if err == nil {
		err = hour.rate()
	}
	if err != nil {
		return nil, err
	}
	result, err := rater.Finish()
	if err != nil {
		return nil, err
	}
	return &result.Invoices[0], nil
}

// copiedHour collects an hour of a copy, in which hours ascend.
type copiedHour struct {
	rater  *Rater
	tenant string
	hour   time.Time
	rows   []Row
}

func (h *copiedHour) add(fact Fact) error {
	if !fact.Hour.Equal(h.hour) {
		if err := h.rate(); err != nil {
			return err
		}
		h.hour, h.rows = fact.Hour, nil
		h.rater.options.Frozen.Cover(fact.Hour, fact.Hour.Add(time.Hour))
	}
	if fact.Usage {
		h.rows = append(h.rows, fact.Row)
		return nil
	}
	fact.Tenant = h.tenant
	h.rater.options.Frozen.add(fact)
	return nil
}

func (h *copiedHour) rate() error {
	if h.hour.IsZero() {
		return nil
	}
	return h.rater.AddHour(h.hour, h.rows)
}

// Recopy writes a tenant's usage copy as of today: the current usage with an earlier copy's frozen facts (R17).
type Recopy struct {
	zone    *month
	tenant  string
	decided []Fact // of the earlier copy, hours ascending
	writer  *copyWriter
	own     []Row // the tenant's rows of an hour; merge keeps none of it
}

// NewRecopy reads the frozen facts from the earlier copy and writes to to, which may be nil: then only the hash is
// computed.
func NewRecopy(book *prices.Book, period Period, tenant string, earlier io.Reader, to io.Writer) (*Recopy, error) {
	r := &Recopy{zone: newMonth(period, book.Location(tenant)), tenant: tenant, writer: newCopyWriter(to)}
	err := ReadCopy(tenant, earlier, func(fact Fact) error {
		if !fact.Usage {
			r.decided = append(r.decided, fact)
		}
		return nil
	})
	return r, err
}

// AddHour adds the tenant's rows among all rows of an hour, hours ascending.
func (r *Recopy) AddHour(hour time.Time, rows []Row) error {
	if !r.zone.has(hour) {
		return nil
	}
	r.decide(hour, false)
	r.own = r.own[:0]
	for i := range rows {
		if rows[i].Tenant == r.tenant {
			r.own = append(r.own, rows[i])
		}
	}
	merged, err := merge(r.own)
	if err != nil {
		return err
	}
	for _, row := range merged {
		r.writer.usage(row)
	}
	r.decide(hour, true)
	return nil
}

// decide writes the facts of the hours before one, or up to it.
func (r *Recopy) decide(hour time.Time, including bool) {
	for len(r.decided) > 0 {
		fact := r.decided[0]
		if fact.Hour.After(hour) || fact.Hour.Equal(hour) && !including {
			return
		}
		r.writer.add(fact)
		r.decided = r.decided[1:]
	}
}

// Finish returns the usage hash, once all hours were added.
func (r *Recopy) Finish() (usageHash string, err error) {
	for _, fact := range r.decided {
		r.writer.add(fact)
	}
	r.decided = nil
	return r.writer.sum()
}
