package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/ingest/ledger"
)

// Store is the part of ClickHouse that explain needs; it only reads.
type Store = ledger.Store

// Request names one GPU-hour. GPU, Pod and Job are alternatives; the first that is set
// counts.
type Request struct {
	GPU     string    // its id, a unique prefix of it, or "node/index"
	Pod     string    // "namespace/pod", or a pod's name or UID
	Job     string    // a job's id
	Hour    time.Time // a full UTC hour
	Cluster string    // empty: any; required if a GPU is in several
	Leaf    string    // only the lines of this leaf; empty: all
	Tenant  string    // only the lines of this tenant; empty: all
	All     bool      // include the batches
}

func (q Request) validate() error {
	switch {
	case q.GPU == "" && q.Pod == "" && q.Job == "":
		return fmt.Errorf("gpu is empty: name a GPU by its UUID or a unique prefix of it, or by a pod or job")
	case q.Hour.IsZero():
		return fmt.Errorf("hour is missing: name a UTC hour such as 2026-10-03T14:00Z")
	case !q.Hour.Equal(q.Hour.Truncate(time.Hour)):
		return fmt.Errorf("hour %s: must be a full hour, such as %s", stamp(q.Hour.UTC()),
			stamp(q.Hour.UTC().Truncate(time.Hour)))
	}
	return nil
}

// Explain explains a GPU-hour. It returns a *NotFoundError or an *AmbiguousError if
// the request matches nothing or several things, other errors if reading fails. An
// explanation that doesn't add up is not an error: its Proof says so.
func Explain(ctx context.Context, db Store, q Request) (*Explanation, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	q.Hour = q.Hour.UTC()
	row, err := findRow(ctx, db, q)
	if err != nil {
		return nil, err
	}
	r, err := ledger.RecomputeHour(ctx, db, row)
	if err != nil {
		return nil, fmt.Errorf("recompute hour %s of GPU %s: %w", stamp(row.Hour), row.GPU, err)
	}
	b := &builder{row: row, recomputed: r, Explanation: newExplanation(row, r)}
	b.figures()
	if err := b.restrict(q); err != nil {
		return nil, err
	}
	switch {
	case r.Gone:
		b.Raw = RawGone
		b.note("raw of this hour was dropped: the figures are as published, but the evidence behind them is not stored any " +
			"more")
		b.Proof.Text = "not possible: raw was dropped"
		return b.Explanation, nil
	case len(r.Missing) > 0:
		b.Raw = RawDamaged
		b.note("raw is damaged: it has fewer rows than the journal says, so only figures are shown")
		b.Proof.Differences = r.Missing
		b.conclude()
		return b.Explanation, nil
	}
	if r.Inputs != row.Inputs {
		b.note("the row was computed from %s, and there are %s now: the hour will be recomputed soon (see gputally status)",
			count(int64(row.Inputs), "journal row"), grouped(int64(r.Inputs)))
	}
	if err := b.explain(ctx, db, q); err != nil {
		return nil, err
	}
	return b.Explanation, b.keep(q)
}

// explain fills in all that raw provides.
func (b *builder) explain(ctx context.Context, db Store, q Request) error {
	if err := b.readEvidence(ctx, db); err != nil {
		return err
	}
	b.lines()
	b.holds()
	b.presence()
	b.energy()
	if b.row.Unknown == 1 {
		b.note("the pool's capacity is unknown, so the sum of the buckets proves nothing about it")
	}
	if err := b.readBatches(ctx, db); err != nil {
		return err
	}
	b.prove()
	b.Summary = b.summary()
	if err := b.contradictions(ctx, db); err != nil {
		return err
	}
	if !q.All {
		b.Batches, b.Losers = nil, nil
	}
	return nil
}

// restrict returns an error that lists the row's tenants unless the requested tenant
// is one of them.
func (b *builder) restrict(q Request) error {
	var tenants []string
	for _, o := range b.Owners {
		if !slices.Contains(tenants, o.Tenant) {
			tenants = append(tenants, o.Tenant)
		}
	}
	if q.Tenant != "" && !slices.Contains(tenants, q.Tenant) {
		return &NotFoundError{What: fmt.Sprintf("tenant %q held no part of GPU %s in hour %s", q.Tenant, b.GPU,
			stamp(b.Hour)), Near: tenants}
	}
	return nil
}

// keep removes the lines, holds and owners that were not asked for. Without a tenant,
// the GPU's own lines stay with every leaf. A leaf that no line names is an error,
// which lists the existing leaves.
func (b *builder) keep(q Request) error {
	var leaves []string
	for _, l := range b.Lines {
		if l.Leaf != "" && !slices.Contains(leaves, l.Leaf) {
			leaves = append(leaves, l.Leaf)
		}
	}
	if q.Leaf != "" && !slices.Contains(leaves, q.Leaf) {
		return &NotFoundError{
			What: fmt.Sprintf("GPU %s had no leaf %q in hour %s", b.GPU, q.Leaf, stamp(b.Hour)),
			Near: leaves,
		}
	}
	drop := func(leaf, tenant string) bool {
		return q.Tenant != "" && tenant != q.Tenant || q.Leaf != "" && leaf != q.Leaf && (leaf != "" || q.Tenant != "")
	}
	b.Lines = slices.DeleteFunc(b.Lines, func(l Line) bool { return drop(l.Leaf, l.Tenant) })
	b.Holds = slices.DeleteFunc(b.Holds, func(h Hold) bool { return drop(h.Leaf, h.Tenant) })
	b.Owners = slices.DeleteFunc(b.Owners, func(o Owner) bool { return drop(o.Leaf, o.Tenant) })
	if q.Leaf != "" || q.Tenant != "" {
		b.note("only the requested part is shown; summary, figures and proof are of the whole GPU-hour")
	}
	return nil
}

// In adds local times to all instants.
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
