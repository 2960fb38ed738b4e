package decisions

import (
	"fmt"
	"slices"
	"time"
)

// place is the position and author of a body's record.
type place struct {
	offset   int64
	appended time.Time
	record   *Record
}

func entry[T any](at place, b *T) Decided[T] {
	return Decided[T]{
		Offset: at.offset, Appended: at.appended.UTC(), At: at.record.At, Who: at.record.Who, Key: at.record.Key, Body: *b,
	}
}

func (b *PriceBook) admit(s *State, at place) string {
	if last := len(s.books) - 1; last >= 0 && s.books[last].Body.SHA256 == b.SHA256 {
		return fmt.Sprintf("price book %s is the book in force already, since offset %d", b.SHA256, s.books[last].Offset)
	}
	s.books = append(s.books, entry(at, b))
	s.byHash[b.SHA256] = len(s.books) - 1
	return ""
}

func (m *Mapping) admit(s *State, at place) string {
	if last := len(s.mappings) - 1; last >= 0 && m.Epoch <= s.mappings[last].Body.Epoch {
		return fmt.Sprintf("epoch is %d, want more than %d, that of offset %d", m.Epoch, s.mappings[last].Body.Epoch,
			s.mappings[last].Offset)
	}
	kept := entry(at, m)
	kept.Body.Text = "" // it can be read from the topic
	s.mappings = append(s.mappings, kept)
	return ""
}

func (f *Freeze) admit(s *State, at place) string {
	if refusal := s.unknown(f.PriceBook, &f.Copy); refusal != "" {
		return refusal
	}
	// The first that ends after this one begins is the only one that can overlap.
	i, _ := slices.BinarySearchFunc(s.freezes, f.From, func(e Decided[Freeze], from time.Time) int {
		if e.Body.To.After(from) {
			return 1
		}
		return -1
	})
	if i < len(s.freezes) && s.freezes[i].Body.From.Before(f.To) {
		e := &s.freezes[i]
		return fmt.Sprintf("hours [%s, %s) overlap those frozen at offset %d, [%s, %s)",
			hour(f.From), hour(f.To), e.Offset, hour(e.Body.From), hour(e.Body.To))
	}
	s.freezes = slices.Insert(s.freezes, i, entry(at, f))
	return ""
}

func (i *Invoice) admit(s *State, at place) string {
	if refusal := i.refuse(s, at); refusal != "" {
		return refusal
	}
	if gaps := s.Unfrozen(i.From, i.To); i.Revision == 0 && len(gaps) > 0 {
		return fmt.Sprintf("hours [%s, %s) are not frozen", hour(gaps[0].From), hour(gaps[0].To))
	}
	if refusal := s.unknown(i.PriceBook, &i.Content, &i.Usage); refusal != "" {
		return refusal
	}
	s.invoices[i.Number] = entry(at, i)
	s.periods[account{i.Tenant, i.Period}]++
	if i.Revision == 0 {
		s.tenants[i.Tenant] = append(s.tenants[i.Tenant], i.Number)
	}
	return ""
}

// refuse compares a document with earlier decisions, leaving out what is appended only
// for the document: its parts, the price book, the freeze of its hours.
func (i *Invoice) refuse(s *State, at place) string {
	if first, taken := s.invoices[i.Number]; taken {
		return fmt.Sprintf("number %q is taken, by %s at offset %d", i.Number, first.Who, first.Offset)
	}
	check := s.refuseInvoice
	if i.Revision > 0 {
		check = s.refuseNote
	}
	if refusal := check(i); refusal != "" {
		return refusal
	}
	if policy, _ := s.Policy(); i.Approval != "" || policy.Body.Approvals {
		return s.unapproved(at, i.Approval, i.Content.SHA256, i.Number)
	}
	return ""
}

// refuseInvoice compares a first invoice with the tenant's others: all must have the
// same time zone, and no hour may be on two of them (C7d).
func (s *State) refuseInvoice(i *Invoice) string {
	for n, number := range s.tenants[i.Tenant] {
		other := s.invoices[number].Body
		if n == 0 && other.TimeZone != i.TimeZone {
			return fmt.Sprintf("time zone is %q, want %q, that of the tenant's first invoice %q", i.TimeZone,
				other.TimeZone, number)
		}
		if i.From.Before(other.To) && other.From.Before(i.To) {
			return fmt.Sprintf("hours [%s, %s) overlap those of invoice %q, [%s, %s)", hour(i.From), hour(i.To), number,
				hour(other.From), hour(other.To))
		}
	}
	return ""
}

// refuseNote compares a note with the revision before it, and with the invoice.
func (s *State) refuseNote(i *Invoice) string {
	n := s.periods[account{i.Tenant, i.Period}]
	if n == 0 {
		return fmt.Sprintf("tenant %q has no invoice of %s to correct", i.Tenant, i.Period)
	}
	if i.Revision != n {
		return fmt.Sprintf("revision is %d, want %d: the next of tenant %q in %s", i.Revision, n, i.Tenant, i.Period)
	}
	last := s.invoices[Number(i.Period, i.Tenant, n-1)].Body
	first := s.invoices[Number(i.Period, i.Tenant, 0)].Body
	for _, c := range []struct{ field, got, want string }{
		{"corrects", i.Corrects, last.Number},
		{"before", i.Before, last.Content.SHA256},
		{"time_zone", i.TimeZone, first.TimeZone},
		{"from", hour(i.From), hour(first.From)},
		{"to", hour(i.To), hour(first.To)},
		{"currency", i.Currency, first.Currency},
		{"price_book", i.PriceBook, first.PriceBook},
	} {
		if c.got != c.want {
			return fmt.Sprintf("%s is %s, want %s, that of what it corrects", c.field, shown(c.got), shown(c.want))
		}
	}
	return ""
}

// unknown names a document or book that a record refers to and that doesn't exist.
func (s *State) unknown(book string, documents ...*Document) string {
	if _, ok := s.byHash[book]; !ok {
		return fmt.Sprintf("price book %s is not published", book)
	}
	for _, d := range documents {
		sum := int64(0)
		for n, hash := range d.Parts {
			p, ok := s.parts[hash]
			if !ok {
				return fmt.Sprintf("part %d of document %s is not there: %s", n, d.SHA256, hash)
			}
			sum += int64(p.bytes)
		}
		if sum != d.Bytes {
			return fmt.Sprintf("document %s has %d bytes in its parts, says %d", d.SHA256, sum, d.Bytes)
		}
	}
	return ""
}

func (a *Approval) admit(s *State, at place) string {
	s.approvals[at.record.Key] = entry(at, a)
	return ""
}

// admit doesn't change the state: an audit entry has no effect but to be read.
func (*Audit) admit(*State, place) string { return "" }

func hour(t time.Time) string { return t.UTC().Format("2006-01-02T15Z") }
