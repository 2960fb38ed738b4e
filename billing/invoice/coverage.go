package invoice

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

// Coverage counts, for every tenant and UTC hour with usage, where it is billed (C7d).
type Coverage struct {
	// Invoiced hours have the same usage in the copy of exactly one invoice, Unbilled ones are in none: their month
	// isn't finalised.
	Invoiced, Unbilled int64
	// Pending hours are in a finalised month, and their usage differs from that in its copy: an adjustment is pending.
	Pending int64
	// Adjustments is the number of pending adjustments.
	Adjustments int
	// Wrong lists invoices whose copy has hours of another month (the decisions ensure that months of a tenant don't
	// overlap, and this check that a copy stays in its month), or another distribution than the frozen one (C7e).
	Wrong []string
}

// heldHoursSQL: every tenant's hours with usage.
//
//go:embed held_hours.sql
var heldHoursSQL string

// Coverage compares all decided invoices with the ledger.
func (r *Register) Coverage(ctx context.Context) (*Coverage, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	c := &covering{billed: map[string][]*billedMonth{}}
	periods := map[string][][]decisions.Invoice{}
	for _, chain := range r.chains("") {
		if err := c.add(ctx, r, chain); err != nil {
			return nil, fmt.Errorf("read coverage of %s: %w", chain[0].Number, err)
		}
		periods[chain[0].Period] = append(periods[chain[0].Period], chain)
	}
	for period, chains := range periods {
		if err := c.compare(ctx, r, period, chains); err != nil {
			return nil, fmt.Errorf("compare the invoices of %s with the ledger: %w", period, err)
		}
	}
	type held struct {
		tenant string
		hour   time.Time
	}
	fields := func(h *held) []any { return []any{&h.tenant, &h.hour} }
	err := store.Each(ctx, r.deps.DB, "hours with usage", heldHoursSQL, nil, fields, func(h *held) error {
		c.count(h.tenant, h.hour.UTC())
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, months := range c.billed {
		for _, m := range months {
			c.Pending += int64(len(m.hours)) // in the copy, but without usage now
		}
	}
	return &c.Coverage, nil
}

// billedMonth is a finalised month, with the hours of its last copy that have not been found in the ledger yet; false:
// their usage differs from the copy's.
type billedMonth struct {
	from, to time.Time
	hours    map[time.Time]bool
}

func (m *billedMonth) has(hour time.Time) bool { return !hour.Before(m.from) && hour.Before(m.to) }

type covering struct {
	Coverage
	billed map[string][]*billedMonth
}

func (c *covering) add(ctx context.Context, r *Register, chain []decisions.Invoice) error {
	last := chain[len(chain)-1]
	m := &billedMonth{from: last.From, to: last.To, hours: map[time.Time]bool{}}
	usage, err := r.usage(ctx, last)
	if err != nil {
		return err
	}
	if err := c.checkFrozen(ctx, r, last, usage); err != nil {
		return err
	}
	err = rating.ReadCopy(last.Tenant, bytes.NewReader(usage), func(fact rating.Fact) error {
		if !m.has(fact.Hour) {
			c.Wrong = append(c.Wrong, fmt.Sprintf("%s has %s in its usage, an hour of another month", last.Number,
				fact.Hour.Format(time.RFC3339)))
			return nil
		}
		if fact.Usage && fact.Row.SliceMS > 0 {
			m.hours[fact.Hour] = true
		}
		return nil
	})
	c.billed[last.Tenant] = append(c.billed[last.Tenant], m)
	return err
}

// compare finds the hours of a month's invoices whose usage differs now.
func (c *covering) compare(ctx context.Context, r *Register, period string, chains [][]decisions.Invoice) error {
	found, err := r.changed(ctx, period, chains)
	if err != nil {
		return err
	}
	c.Adjustments += len(found)
	for _, f := range found {
		hours, err := changedHours(f.before.Tenant, f.earlier.usage, f.text.Bytes())
		if err != nil {
			return err
		}
		for _, m := range c.billed[f.before.Tenant] {
			for _, hour := range hours {
				if m.hours[hour] {
					m.hours[hour] = false
				}
			}
		}
	}
	return nil
}

func (c *covering) count(tenant string, hour time.Time) {
	for _, m := range c.billed[tenant] {
		if !m.has(hour) {
			continue
		}
		if m.hours[hour] {
			c.Invoiced++
		} else {
			c.Pending++
		}
		delete(m.hours, hour)
		return
	}
	c.Unbilled++
}

// checkFrozen compares a copy with what was frozen for its hours.
func (c *covering) checkFrozen(ctx context.Context, r *Register, last decisions.Invoice, usage []byte) error {
	frozen, err := r.frozen(ctx, last.From, last.To)
	if err != nil {
		return err
	}
	if err := errors.Join(frozen.Check(),
		frozen.CheckCopy(last.Tenant, last.From, last.To, bytes.NewReader(usage))); err != nil {
		c.Wrong = append(c.Wrong, fmt.Sprintf("%s: %v", last.Number, err))
	}
	return nil
}

// VerifyAll recomputes every decided document from its own copy, and calls visit for the verdicts by period, tenant
// and revision.
func (r *Register) VerifyAll(ctx context.Context, visit func(*Verdict) error) error {
	if err := r.refresh(ctx); err != nil {
		return err
	}
	for _, chain := range r.chains("") {
		for _, record := range chain {
			verdict, err := r.verify(ctx, record)
			if err != nil {
				return fmt.Errorf("verify invoice %s: %w", record.Number, err)
			}
			if err := visit(verdict); err != nil {
				return err
			}
		}
	}
	return nil
}

// newMappingsSQL reads the epochs after one, for each number first the one in force. Parameter: the epoch.
const newMappingsSQL = `
SELECT epoch, mapping, tenants, effective
FROM epochs FINAL
WHERE epoch > {after:UInt32}
ORDER BY epoch, rules DESC, mapping`

// noteTakerName is the author of recorded mappings.
const noteTakerName = "gputally"

// NoteMappings records every tenant mapping under which the ledger was published and that isn't in the decisions yet,
// and returns their number (R6, R15): so the audit chain contains the mapping of an invoice, by its epoch.
func (r *Register) NoteMappings(ctx context.Context) (noted int, err error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return 0, err
	}
	return r.noteMappings(ctx)
}

func (r *Register) noteMappings(ctx context.Context) (noted int, err error) {
	var last uint32 // epoch of a mapping that was noted; 0: none was
	for _, m := range ask(r, (*decisions.State).Mappings) {
		last = max(last, m.Body.Epoch)
	}
	mappings, err := newMappings(ctx, r.deps.DB, last)
	if err != nil {
		return 0, err
	}
	for i := range mappings {
		m := &mappings[i]
		what := request("mapping", fmt.Sprint(m.Epoch), m.SHA256)
		outcome, err := r.deps.Decisions.Append(ctx, decisions.KindMapping, "mapping/"+what, what, noteTakerName, m)
		if err != nil {
			return noted, fmt.Errorf("note mapping of epoch %d: %w", m.Epoch, err)
		}
		if outcome.Accepted && outcome.Repeats < 0 {
			noted++ // else another process was first
		}
	}
	return noted, nil
}

// newMappings returns the mappings in force of the epochs after one, ascending.
func newMappings(ctx context.Context, db DB, after uint32) (mappings []decisions.Mapping, err error) {
	fields := func(m *decisions.Mapping) []any { return []any{&m.Epoch, &m.SHA256, &m.Text, &m.Effective} }
	err = store.Each(ctx, db, "epochs", newMappingsSQL, []any{store.Named("after", after)}, fields,
		func(m *decisions.Mapping) error {
			m.Effective = m.Effective.UTC()
			if last := len(mappings) - 1; last < 0 || mappings[last].Epoch < m.Epoch {
				mappings = append(mappings, *m)
			}
			return nil
		})
	return mappings, err
}
