package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/meter"
)

// gap says how the gap around an entry was filled, or why it wasn't (R10).
func (w *words) gap(e *entry) string {
	before, after, between := w.sides(e)
	if e.inferred {
		return w.filled(e, before, after)
	}
	why := w.notFilled(e, before, after, between)
	if c := w.cellAt(e.fromMS); c != nil && c.kind.against() {
		why = "not inferred, the GPU was lost or overfull in this very slot"
	}
	if e.code != codeGap {
		return "R10: " + why
	}
	return "no batch of " + orNobody(e.node) + " tells of these slots: " + why
}

func orNobody(node string) string {
	if node == "" {
		return "any node"
	}
	return "node " + node
}

// sides are the nearest slots around an entry whose holders are known; between
// is a slot on the way that no gap reaches over. A slot that was seen in part is
// both of its own sides.
func (w *words) sides(e *entry) (before, after, between *cell) {
	first := slices.IndexFunc(w.cells, func(c cell) bool { return c.startMS+w.slotMS > e.fromMS })
	for i := first - 1; i >= 0 && before == nil && between == nil; i-- {
		switch c := &w.cells[i]; {
		case c.kind.side():
			before = c
		case c.kind.against():
			between = c
		}
	}
	for i := max(first, 0); i < len(w.cells) && after == nil; i++ {
		c := &w.cells[i]
		switch {
		case c.startMS < e.toMS && c.kind != cut:
			continue
		case c.kind.side():
			after = c
		case c.kind.against():
			return before, after, c
		}
	}
	return before, after, between
}

func (w *words) filled(e *entry, before, after *cell) string {
	if w.insideOneSlot(e) {
		return "a gap inside the slot with equal holders on both sides, at most 30 s: inferred, at the shares they had"
	}
	if before == nil || after == nil {
		return "a gap of at most 30 s with the same leaf and the same holders on both sides: inferred, at the shares they had"
	}
	_, from := before.bounds(w.slotMS)
	to, _ := after.bounds(w.slotMS)
	return fmt.Sprintf("a gap of %s from %s to %s, at most 30 s, with the same leaf and holders on both sides: inferred, at the shares they had",
		seconds(to-from), clockMS(from), clockMS(to))
}

// insideOneSlot says that the entry is of one slot that was seen in several parts.
func (w *words) insideOneSlot(e *entry) bool {
	i := slices.IndexFunc(w.cells, func(c cell) bool { return c.startMS == e.fromMS })
	return e.slots == 1 && i >= 0 && w.cells[i].kind == cut && len(w.cells[i].slot.Observed) > 2
}

func (w *words) notFilled(e *entry, before, after, between *cell) string {
	switch {
	case between != nil:
		return fmt.Sprintf("not inferred, the GPU was known to be lost or overfull at %s", clockMS(between.startMS))
	case before == nil && after == nil:
		return "not inferred, no side of the gap is known within 30 s of the hour"
	case before == nil:
		return "not inferred, nothing is known before the gap"
	case after == nil:
		return "not inferred, nothing is known after the gap"
	case before.node != after.node:
		return fmt.Sprintf("not inferred, never across nodes: %s before, %s after", before.node, after.node)
	}
	_, from := before.bounds(w.slotMS)
	to, _ := after.bounds(w.slotMS)
	length := to - from
	if before == after || to <= from {
		length = e.toMS - e.fromMS
	}
	if length > meter.GapMaxMS {
		return fmt.Sprintf("not inferred, the gap of %s is longer than gap_max (30 s)", seconds(length))
	}
	had, has := w.holdersAt(before, true), w.holdersAt(after, false)
	switch {
	case had == "" && has == "":
		return "not inferred, nobody held it on either side, and free time is never inferred"
	case had == has:
		return "what nobody held, or was listed otherwise in between, is not inferred"
	}
	return fmt.Sprintf("not inferred, the holders differ: %s before, %s after", orNone(had), orNone(has))
}

func orNone(text string) string {
	if text == "" {
		return "nobody"
	}
	return text
}

// holdersAt are who had which leaf at a slot's first or last instant.
func (w *words) holdersAt(c *cell, tail bool) string {
	var out []string
	for _, r := range c.record.Rows {
		share := r.Head
		if tail {
			share = r.Tail
		}
		if share != 0 && r.Bucket != meter.Pending && r.Owner != 0 {
			out = append(out, fmt.Sprintf("%s on %s (%s)", w.raw.label(r.Owner), w.raw.leaves[r.Leaf].Leaf, oneShare(share)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
