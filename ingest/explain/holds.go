package explain

import (
	"cmp"
	"slices"

	"github.com/gputally/gputally/internal/meter"
)

// How exact a hold's end is.
const (
	edgeExact   = "exact"
	edgeDerived = "by its slice-ms"                              // one owner, one interval: its length tells
	edgeInside  = "within the slot, the instant is not kept"     // shared with others
	edgeBefore  = "or earlier, held in the slot before the hour" // the hour's start cuts it
	edgeAfter   = "or later, held in the slot after the hour"    // the hour's end cuts it
	edgeSince   = "or earlier, the slot before was not seen"
	edgeUnknown = "or later, the slot after was not seen"
	edgeFlagged = "not kept, flagged time has no holders in raw" // R9.5
	edgeOpen    = "or later, the watermark is here"              // of an open hour
)

// holdRun is a hold in the making.
type holdRun struct {
	Hold
	leaf   uint64
	id     string
	tail   meter.Share
	lastMS int64 // end of its last slot
}

// holds follows each owner of each leaf from slot to slot. Time that was
// flagged unhealthy has no holders in raw.
func (w *words) holds() []Hold {
	var runs []*holdRun
	open := map[track]*holdRun{}
	for i := range w.cells {
		c := &w.cells[i]
		if c.startMS < w.raw.row.startMS() || c.startMS >= w.raw.row.endMS() || !c.kind.side() {
			continue
		}
		for _, r := range heldRows(c) {
			key := track{leaf: r.Leaf, owner: w.first[w.raw.owners[r.Owner].Owner]}
			if run := open[key]; run != nil && run.lastMS == c.startMS && run.tail != 0 && r.Head != 0 {
				w.goOn(run, c, &r)
				continue
			}
			run := w.begin(i, c, &r)
			open[key] = run
			runs = append(runs, run)
		}
	}
	out := make([]Hold, len(runs))
	for i, run := range runs {
		out[i] = run.Hold
	}
	slices.SortStableFunc(out, func(a, b Hold) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(a.Owner, b.Owner))
	})
	return out
}

// heldRows are the rows of owners, one per leaf and owner.
func heldRows(c *cell) []meter.Row {
	var out []meter.Row
	for _, r := range c.record.Rows {
		if r.Owner == 0 || r.Bucket == meter.Pending {
			continue
		}
		out = append(out, r)
	}
	return out
}

// firstHashes stand each for all hashes of one owner, whose facts may grow.
func (r *raw) firstHashes() map[string]uint64 {
	out := make(map[string]uint64, len(r.owners))
	for hash, o := range r.owners {
		if old, ok := out[o.Owner]; !ok || hash < old {
			out[o.Owner] = hash
		}
	}
	return out
}

func (w *words) begin(i int, c *cell, r *meter.Row) *holdRun {
	o := w.raw.owners[r.Owner]
	run := &holdRun{leaf: r.Leaf, id: o.Owner}
	run.Hold = Hold{
		Leaf: w.raw.leaves[r.Leaf].Leaf, Owner: w.raw.label(r.Owner), OwnerID: o.Owner, Facts: o.describe(), Tenant: w.tenant(r.Owner), Shares: []string{},
	}
	from, to := c.bounds(w.slotMS)
	run.Begins = edgeExact
	switch {
	case r.Head == 0 && w.alone(c, r):
		from, run.Begins = to-r.SliceMS/int64(w.raw.leaves[r.Leaf].Slices), edgeDerived
	case r.Head == 0:
		run.Begins = edgeInside
	case i > 0 && flagged(&w.cells[i-1], r.Leaf):
		run.Begins = edgeFlagged
	case i > 0 && w.cells[i-1].kind.side():
		if w.holdsOn(&w.cells[i-1], r, true) {
			run.Begins = edgeBefore
		}
	case i > 0 && w.cells[i-1].kind != absent:
		run.Begins = edgeSince
	}
	run.Range = between(from, to)
	w.goOn(run, c, r)
	return run
}

// alone says that the owner was the leaf's only one, in one piece of a slot
// that was seen whole: its slice-ms tell the instant of the other end.
func (w *words) alone(c *cell, r *meter.Row) bool {
	share := max(r.Head, r.Tail)
	num, den := share.Rat()
	leaf := w.raw.leaves[r.Leaf]
	if c.kind != plain || num != den || share == 0 || leaf.Slices == 0 || r.SliceMS%int64(leaf.Slices) != 0 {
		return false
	}
	n := 0
	for _, o := range c.record.Rows {
		if o.Leaf == r.Leaf && o.Owner != 0 {
			n++
		}
	}
	return n == 1
}

// holdsOn says that the same owner has the leaf at a slot's last, or first, instant.
func (w *words) holdsOn(c *cell, r *meter.Row, tail bool) bool {
	id := w.raw.owners[r.Owner].Owner
	return slices.ContainsFunc(c.record.Rows, func(o meter.Row) bool {
		share := o.Head
		if tail {
			share = o.Tail
		}
		return o.Leaf == r.Leaf && o.Owner != 0 && share != 0 && w.raw.owners[o.Owner].Owner == id
	})
}

func (w *words) goOn(run *holdRun, c *cell, r *meter.Row) {
	from, to := c.bounds(w.slotMS)
	run.tail, run.lastMS = r.Tail, c.startMS+w.slotMS
	run.SliceMS += r.SliceMS
	for _, s := range []meter.Share{r.Head, r.Tail} {
		if text := oneShare(s); s != 0 && !slices.Contains(run.Shares, text) {
			run.Shares = append(run.Shares, text)
		}
	}
	run.Ends = w.ending(c, r.Leaf)
	switch {
	case r.Tail == 0 && r.Head != 0 && w.alone(c, r):
		to, run.Ends = from+r.SliceMS/int64(w.raw.leaves[r.Leaf].Slices), edgeDerived
	case r.Tail == 0:
		run.Ends = edgeInside
	case run.Ends == edgeExact:
		if next := w.cellAt(c.startMS + w.slotMS); next != nil && next.startMS >= w.raw.row.endMS() && w.holdsOn(next, r, false) {
			run.Ends = edgeAfter
		}
	}
	run.Range = between(run.From.UnixMilli(), to)
}

// ending is how exact the end is of what is held at a slot's last instant.
func (w *words) ending(c *cell, leaf uint64) string {
	next := w.cellAt(c.startMS + w.slotMS)
	switch {
	case c.startMS+w.slotMS == w.raw.row.endMS() && w.raw.row.UntilMS < meter.HourMS:
		return edgeOpen
	case next == nil || !next.kind.side():
		return edgeUnknown
	case flagged(next, leaf):
		return edgeFlagged
	}
	return edgeExact
}

// flagged says that the slot has flagged time of the leaf, whose holders raw
// doesn't name.
func flagged(c *cell, leaf uint64) bool {
	return c.record != nil && slices.ContainsFunc(c.record.Rows, func(r meter.Row) bool {
		return r.Leaf == leaf && r.Why == meter.WhyFlagged
	})
}

func (w *words) cellAt(startMS int64) *cell {
	i := (startMS - w.cells[0].startMS) / w.slotMS
	if i < 0 || i >= int64(len(w.cells)) {
		return nil
	}
	return &w.cells[i]
}
