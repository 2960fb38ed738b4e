package decisions

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Span is a range of UTC hours [From, To).
type Span struct{ From, To time.Time }

// Books returns the published price books, in order; the last is in force.
func (s *State) Books() []Decided[PriceBook] { return slices.Clone(s.books) }

// Book returns the last book published with this SHA-256.
func (s *State) Book(sha256 string) (Decided[PriceBook], bool) {
	i, ok := s.byHash[sha256]
	if !ok {
		return Decided[PriceBook]{}, false
	}
	return s.books[i], true
}

// BookInForce returns the book published last; false: none.
func (s *State) BookInForce() (Decided[PriceBook], bool) {
	if len(s.books) == 0 {
		return Decided[PriceBook]{}, false
	}
	return s.books[len(s.books)-1], true
}

// Freezes returns the frozen ranges, ascending.
func (s *State) Freezes() []Decided[Freeze] {
	out := slices.Clone(s.freezes)
	for i := range out {
		out[i].Body.Copy = out[i].Body.Copy.clone()
	}
	return out
}

// Unfrozen returns the ranges of hours in [from, to) that no freeze covers, ascending.
func (s *State) Unfrozen(from, to time.Time) (gaps []Span) {
	for i := range s.freezes {
		f := &s.freezes[i].Body
		if !f.To.After(from) {
			continue
		}
		if !f.From.Before(to) {
			break
		}
		if f.From.After(from) {
			gaps = append(gaps, Span{from, f.From})
		}
		from = f.To
	}
	if from.Before(to) {
		gaps = append(gaps, Span{from, to})
	}
	return gaps
}

// Invoice returns the invoice or note with a number.
func (s *State) Invoice(number string) (Decided[Invoice], bool) {
	e, ok := s.invoices[number]
	return cloneInvoice(e), ok
}

// Revisions returns a tenant's invoice of a period and its notes, by revision.
func (s *State) Revisions(tenant, period string) []Decided[Invoice] {
	var out []Decided[Invoice]
	for n := range s.periods[account{tenant, period}] {
		out = append(out, cloneInvoice(s.invoices[Number(period, tenant, n)]))
	}
	return out
}

// Invoices returns all invoices and notes, by period, tenant and revision.
func (s *State) Invoices() []Decided[Invoice] {
	out := make([]Decided[Invoice], 0, len(s.invoices))
	for _, e := range s.invoices {
		out = append(out, cloneInvoice(e))
	}
	slices.SortFunc(out, func(a, b Decided[Invoice]) int {
		return cmp.Or(strings.Compare(a.Body.Period, b.Body.Period), strings.Compare(a.Body.Tenant, b.Body.Tenant),
			a.Body.Revision-b.Body.Revision)
	})
	return out
}

// TimeZone is the time zone of the tenant's first finalised invoice, which all later
// ones must have; false: the tenant has none.
func (s *State) TimeZone(tenant string) (string, bool) {
	numbers := s.tenants[tenant]
	if len(numbers) == 0 {
		return "", false
	}
	return s.invoices[numbers[0]].Body.TimeZone, true
}

// Approval returns the approval whose record has the key.
func (s *State) Approval(key string) (Decided[Approval], bool) {
	e, ok := s.approvals[key]
	return e, ok
}

// Approvals returns the approvals of a subject, in order.
func (s *State) Approvals(subject string) []Decided[Approval] {
	var out []Decided[Approval]
	for _, e := range s.approvals {
		if e.Body.Subject == subject {
			out = append(out, e)
		}
	}
	return byOffset(out)
}

// Mappings returns the changes of the tenant mapping, in order, without their texts,
// which Log.Record reads.
func (s *State) Mappings() []Decided[Mapping] { return slices.Clone(s.mappings) }

// Used returns the outcome of the record that used an idempotency key; false: none
// did.
func (s *State) Used(key string) (Outcome, bool) {
	k, ok := s.keys[key]
	if !ok {
		return Outcome{}, false
	}
	out, _ := s.Outcome(k.offset)
	return out, true
}

func byOffset[T any](list []Decided[T]) []Decided[T] {
	slices.SortFunc(list, func(a, b Decided[T]) int { return cmp.Compare(a.Offset, b.Offset) })
	return list
}

func (d Document) clone() Document {
	d.Parts = slices.Clone(d.Parts)
	return d
}

func cloneInvoice(e Decided[Invoice]) Decided[Invoice] {
	e.Body.Content, e.Body.Usage = e.Body.Content.clone(), e.Body.Usage.clone()
	return e
}
