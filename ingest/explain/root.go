package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

// Store is what explain needs of ClickHouse; it only reads.
type Store interface {
	Select(ctx context.Context, dest any, sql string, args ...any) error
}

// Request names one GPU-hour.
type Request struct {
	GPU     string    // its id, or a unique beginning of it
	Hour    time.Time // a full UTC hour
	Cluster string    // empty: any; needed where a GPU is in several
	Leaf    string    // only the lines of this leaf; empty: all
	Tenant  string    // only the lines of this tenant; empty: all
}

func (q Request) validate() error {
	switch {
	case q.GPU == "":
		return fmt.Errorf("gpu is empty: name a GPU by its UUID or a unique beginning of it")
	case q.Hour.IsZero():
		return fmt.Errorf("hour is missing: name a UTC hour such as 2026-10-03T14:00Z")
	case !q.Hour.Equal(q.Hour.Truncate(time.Hour)):
		return fmt.Errorf("hour %s: is no full hour; the one around it is %s", stamp(q.Hour.UTC()), stamp(q.Hour.UTC().Truncate(time.Hour)))
	}
	return nil
}

// Explain takes the GPU-hour apart. Errors are a *NotFoundError or an
// *AmbiguousError where the request names nothing or several, else of reading.
// An explanation that doesn't add up is no error: its Proof says so.
func Explain(ctx context.Context, db Store, q Request) (*Explanation, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	q.Hour = q.Hour.UTC()
	row, err := findRow(ctx, db, q)
	if err != nil {
		return nil, err
	}
	r, err := readRaw(ctx, db, row)
	if err != nil {
		return nil, err
	}
	m, err := readMapping(ctx, db, row)
	if err != nil {
		return nil, err
	}
	e := r.figures(m)
	if err := e.restrict(q); err != nil {
		return nil, err
	}
	switch {
	case r.gone():
		e.Raw = RawGone
		e.Notes = append(e.Notes, fmt.Sprintf("raw of this hour is gone (%s): the figures stand as published, what is behind them is not kept any more", r.goneWhy()))
		e.Proof.Text = "not possible: raw is gone"
		return e, nil
	case len(r.missing) > 0:
		e.Raw = RawDamaged
		e.Notes = append(e.Notes, "raw is damaged: it holds less than the journal promised, so these are figures only")
		for _, m := range r.missing {
			e.Proof.Differences = append(e.Proof.Differences, Difference{"raw: " + m.text, "damaged", "promised"})
		}
		e.Proof.conclude()
		return e, nil
	}
	if r.inputs != row.Inputs {
		e.Notes = append(e.Notes, fmt.Sprintf("the row rests on %d journal rows and there are %d now: the hour is about to be recomputed (gputally status)", row.Inputs, r.inputs))
	}
	if err := e.explain(r, m); err != nil {
		return nil, err
	}
	return e, e.keep(q)
}

// explain fills in all that raw tells.
func (e *Explanation) explain(r *raw, m *mapping) error {
	p, whole, err := newReplay(r)
	if err != nil {
		return err
	}
	cells, err := p.cells()
	if err != nil {
		return err
	}
	segments, err := p.segments(cells)
	if err != nil {
		return err
	}
	b := newBook(p)
	for i := range segments {
		b.segment(&segments[i])
		e.Proof.step(r, &segments[i], &b.sum)
	}
	entries := b.sorted()
	w := words{raw: r, cells: cells, slotMS: r.slotMS, slices: p.slices, kind: p.kind, mapping: m, first: r.firstHashes()}
	for i := range entries {
		e.Lines = append(e.Lines, w.line(&entries[i]))
	}
	e.SlotMS = r.slotMS
	if p.kind == meter.OpenPool {
		e.Notes = append(e.Notes, "the pool's capacity is not known: that the buckets sum to it proves nothing (R18)")
	}
	e.Leaves = r.leafList()
	e.Capacity = w.capacity()
	e.Presence = w.presence(segments)
	e.Holds = w.holds()
	e.Batches, e.Losers = w.batches()
	e.Events = r.eventList()
	e.Energy = w.energy(entries, segments)
	e.Proof.compare(r, m, entries, segments, whole)
	return nil
}

// restrict refuses a tenant that the row doesn't have, with those it has.
func (e *Explanation) restrict(q Request) error {
	var tenants []string
	for _, o := range e.Owners {
		if !slices.Contains(tenants, o.Tenant) {
			tenants = append(tenants, o.Tenant)
		}
	}
	if q.Tenant != "" && !slices.Contains(tenants, q.Tenant) {
		return &NotFoundError{What: fmt.Sprintf("tenant %q: held nothing of GPU %s in hour %s", q.Tenant, e.GPU, stamp(e.Hour)), Near: tenants}
	}
	return nil
}

// keep leaves the lines, holds and owners that were asked for. Without a
// tenant, the GPU's own lines stay with every leaf. A leaf that no line names
// is refused, with those that there are.
func (e *Explanation) keep(q Request) error {
	var leaves []string
	for _, l := range e.Lines {
		if l.Leaf != "" && !slices.Contains(leaves, l.Leaf) {
			leaves = append(leaves, l.Leaf)
		}
	}
	if q.Leaf != "" && !slices.Contains(leaves, q.Leaf) {
		return &NotFoundError{What: fmt.Sprintf("leaf %q: GPU %s had no such leaf in hour %s", q.Leaf, e.GPU, stamp(e.Hour)), Near: leaves}
	}
	drop := func(leaf, tenant string) bool {
		return q.Tenant != "" && tenant != q.Tenant || q.Leaf != "" && leaf != q.Leaf && (leaf != "" || q.Tenant != "")
	}
	e.Lines = slices.DeleteFunc(e.Lines, func(l Line) bool { return drop(l.Leaf, l.Tenant) })
	e.Holds = slices.DeleteFunc(e.Holds, func(h Hold) bool { return drop(h.Leaf, h.Tenant) })
	e.Owners = slices.DeleteFunc(e.Owners, func(o Owner) bool { return drop(o.Leaf, o.Tenant) })
	if q.Leaf != "" || q.Tenant != "" {
		e.Notes = append(e.Notes, "only a part is shown, as asked for; figures and proof are of the whole GPU-hour")
	}
	return nil
}

// In adds local times to all of them.
func (e *Explanation) In(zone *time.Location) {
	e.zone, e.TimeZone, e.HourLocal = zone, zone.String(), e.Hour.In(zone).Format(time.RFC3339)
	for i := range e.Presence {
		e.Presence[i].local(zone)
	}
	for i := range e.Lines {
		e.Lines[i].local(zone)
	}
	for i := range e.Holds {
		e.Holds[i].local(zone)
	}
	for i := range e.Batches {
		e.Batches[i].local(zone)
	}
	for i := range e.Events {
		e.Events[i].AtLocal = e.Events[i].At.In(zone).Format(time.RFC3339Nano)
	}
}
