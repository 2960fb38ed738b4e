package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

// lineKey is what the slots of one line have in common.
type lineKey struct {
	node        string
	leaf, owner uint64
	bucket      meter.Bucket
	why         meter.Why
	gap         meter.GapWhy
	source      string // of the activity
	others      string // the instance that works on another leaf of the GPU
}

// openLine is a line that may be extended.
type openLine struct {
	Line
	head, tail meter.Share
	perSlot    int64 // of the last slot
}

// lines joins equal pieces of consecutive slots.
func (b *builder) lines() {
	open := map[lineKey]*openLine{}
	var all []*openLine
	for i := range b.recomputed.Parts {
		p := &b.recomputed.Parts[i]
		signals := b.signals(p)
		key := lineKey{p.Node, p.Leaf, p.Owner, p.Bucket, p.Why, p.Gap, "", ""}
		if signals != nil {
			key.source, key.others = signals.Source, signals.OtherWorks
		}
		if l := open[key]; l != nil && l.takes(p, b.slotRange(p.StartMS), signals) {
			continue
		}
		l := b.newLine(p, signals)
		open[key] = l
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(x, y *openLine) int {
		return cmp.Or(x.From.Compare(y.From), cmp.Compare(x.Leaf, y.Leaf), cmp.Compare(x.Owner, y.Owner),
			cmp.Compare(x.Bucket, y.Bucket),
			cmp.Compare(x.Code, y.Code))
	})
	seen := map[Leaf]bool{}
	for _, l := range all {
		l.Share = shareText(l.head, l.tail)
		b.Lines = append(b.Lines, l.Line)
	}
	for _, p := range b.recomputed.Parts {
		if l := (Leaf{b.recomputed.Leaf(p.Leaf).ID, describeLeaf(b.recomputed.Leaf(p.Leaf))}); p.Leaf != 0 && !seen[l] {
			seen[l] = true
			b.Leaves = append(b.Leaves, l)
		}
	}
	slices.SortFunc(b.Leaves, func(x, y Leaf) int {
		return cmp.Or(cmp.Compare(x.Leaf, y.Leaf), cmp.Compare(x.Text, y.Text))
	})
}

func (b *builder) newLine(p *meter.Part, signals *Signals) *openLine {
	l := &openLine{head: p.Head, tail: p.Tail, perSlot: p.SliceMS, Line: Line{
		Range: b.slotRange(p.StartMS), Slots: 1, Node: p.Node, Bucket: p.Bucket.String(),
		Inferred: p.Why == meter.WhyInferred, SliceMS: p.SliceMS, EnergyMJ: p.EnergyMJ, UnattributedMJ: p.UnattributedMJ,
		Code: p.Why.String(), Gap: p.Gap.String(), Why: b.reason(p), Signals: signals,
	}}
	if p.Leaf != 0 {
		l.Leaf = b.recomputed.Leaf(p.Leaf).ID
	}
	if p.Owner != 0 {
		l.Owner, l.Tenant = b.label(p.Owner), b.tenant(p.Owner)
		l.OwnerID, _ = b.owner(p.Owner)
	}
	return l
}

// takes extends the line by a piece of the next slot, or by energy of the same slot.
// The largest-remainder step may move one slice-ms between slots.
func (l *openLine) takes(p *meter.Part, slot Range, s *Signals) bool {
	near := max(l.perSlot-p.SliceMS, p.SliceMS-l.perSlot) <= 1 && l.head == p.Head && l.tail == p.Tail
	loose := p.Bucket == meter.Unobserved || p.Why == meter.WhyInferred
	switch {
	case l.To.Equal(slot.From) && (near || loose):
		l.Slots++
		l.To, l.perSlot = slot.To, p.SliceMS
	case l.To.Equal(slot.To) && (p.SliceMS == 0 || loose):
	default:
		return false
	}
	l.SliceMS, l.EnergyMJ, l.UnattributedMJ = l.SliceMS+p.SliceMS, l.EnergyMJ+p.EnergyMJ, l.UnattributedMJ+p.UnattributedMJ
	if s != nil && l.Signals != nil {
		l.Signals.join(s)
	}
	return true
}

// shareText is the share of the leaf at the first and the last observed instant.
func shareText(head, tail meter.Share) string {
	switch {
	case head == 0 && tail == 0:
		return ""
	case head == tail:
		return oneShare(head)
	}
	return oneShare(head) + ", then " + oneShare(tail)
}

func oneShare(s meter.Share) string {
	if s == 0 {
		return "none"
	}
	num, den := s.Rat()
	return strings.Join([]string{grouped(num), grouped(den)}, "/")
}

// holds joins the slots in which an owner holds a leaf, in whatever bucket.
func (b *builder) holds() {
	type key struct{ leaf, owner string }
	open := map[key]*Hold{}
	var all []*Hold
	for i := range b.recomputed.Parts {
		p := &b.recomputed.Parts[i]
		if p.Owner == 0 {
			continue
		}
		id, facts := b.owner(p.Owner)
		at, slot := key{b.recomputed.Leaf(p.Leaf).ID, id}, b.slotRange(p.StartMS)
		h := open[at]
		if h == nil || h.To.Before(slot.From) || p.Why != meter.WhyInferred && h.Ends != "" && p.Head == 0 &&
			h.To.Equal(slot.From) {
			h = &Hold{
				Range: slot, Leaf: at.leaf, Owner: b.label(p.Owner), OwnerID: id, Facts: describe(facts),
				Tenant: b.tenant(p.Owner), Shares: []string{},
			}
			if p.Head == 0 && p.Why != meter.WhyInferred {
				h.From, h.Begins = b.edge(p, slot, true)
			}
			open[at] = h
			all = append(all, h)
		}
		h.To, h.SliceMS = slot.To, h.SliceMS+p.SliceMS
		if p.Tail == 0 && p.Why != meter.WhyInferred {
			h.To, h.Ends = b.edge(p, slot, false)
		}
		for _, s := range []meter.Share{p.Head, p.Tail} {
			if text := oneShare(s); s != 0 && !slices.Contains(h.Shares, text) {
				h.Shares = append(h.Shares, text)
			}
		}
	}
	for _, h := range all {
		b.Holds = append(b.Holds, *h)
	}
	slices.SortStableFunc(b.Holds, func(x, y Hold) int {
		return cmp.Or(x.From.Compare(y.From), cmp.Compare(x.Leaf, y.Leaf), cmp.Compare(x.Owner, y.Owner))
	})
}

// edge is when a hold begins or ends inside a slot. For a whole leaf that follows from
// its slice-ms; for a share the instant isn't stored.
func (b *builder) edge(p *meter.Part, slot Range, begins bool) (time.Time, string) {
	leaf := int64(b.recomputed.Leaf(p.Leaf).Slices)
	num, den := max(p.Head, p.Tail).Rat()
	length := slot.To.Sub(slot.From)
	held := length
	if num == den && num > 0 && leaf > 0 && p.SliceMS%leaf == 0 {
		held = time.Duration(p.SliceMS/leaf) * time.Millisecond
	}
	switch {
	case held < length && begins:
		return slot.To.Add(-held), "inside a slot, derived from its slice-ms"
	case held < length:
		return slot.From.Add(held), "inside a slot, derived from its slice-ms"
	case begins:
		return slot.From, "inside this slot; the exact time is not stored"
	}
	return slot.To, "inside this slot; the exact time is not stored"
}
