package meter

import (
	"math/big"
	"slices"

	"github.com/gpuledger/gpuledger/internal/wire"
)

// span is [from, to) in ms of the slot.
type span struct{ from, to int64 }

func (s span) contains(t int64) bool { return s.from <= t && t < s.to }

func toSpans(in []*wire.Interval) []span {
	out := make([]span, len(in))
	for i, o := range in {
		out[i] = span{o.FromMs, o.ToMs}
	}
	return out
}

func clip(parts []span, to span) []span {
	out := make([]span, 0, len(parts))
	for _, p := range parts {
		if c := (span{max(p.from, to.from), min(p.to, to.to)}); c.from < c.to {
			out = append(out, c)
		}
	}
	return out
}

func spanLength(parts []span) (sum int64) {
	for _, p := range parts {
		sum += p.to - p.from
	}
	return sum
}

// timeline is who had a leaf when, over the parts of the slot that were seen.
type timeline struct {
	holders []holder
	freeMS  int64 // slice-ms
	entries []entry
	// head and tail are the holders' shares at the first and the last instant
	// seen of the slot, 0 where the leaf isn't there.
	head, tail []Share
}

// holder is one owner of the leaf in this slot, in order of its id.
type holder struct {
	id        ownerID
	sliceMS   int64
	coveredMS int64 // of the slot, held by any of its entries
}

// entry is one hold clipped to its leaf and to what was seen.
type entry struct {
	holder int
	span   span
}

func (s *settler) timeline(l *leafState) timeline {
	var t timeline
	for _, h := range s.holdsOf(l.wire.Id) {
		if h.Leaf != l.wire.Id {
			continue
		}
		lo, hi := wire.Span(h.FromMs, h.ToMs, s.slotMS)
		parts := clip(l.seen, span{lo, hi})
		if len(parts) == 0 {
			continue
		}
		n := t.holder(s.ids.owner(OwnerOf(h.Owner)))
		for _, p := range parts {
			t.entries = append(t.entries, entry{n, p})
		}
	}
	t.head, t.tail = make([]Share, len(t.holders)), make([]Share, len(t.holders))
	if !t.whole(s, l) {
		t.shareOut(s, l)
	}
	t.edges(s, l)
	return t
}

// holder finds or adds the owner. Two sets of facts under one id are one
// owner: the smaller hash stands for both.
func (t *timeline) holder(id ownerID) int {
	for i := range t.holders {
		if t.holders[i].id.id == id.id {
			t.holders[i].id.hash = min(t.holders[i].id.hash, id.hash)
			return i
		}
	}
	t.holders = append(t.holders, holder{id: id})
	return len(t.holders) - 1
}

// whole is the plain case: nobody, or one entry over all that was seen,
// without replicas.
func (t *timeline) whole(s *settler, l *leafState) bool {
	all := int64(l.slices) * l.seenMS
	switch {
	case len(t.entries) == 0:
		t.freeMS = all
		return true
	case len(t.entries) == 1 && l.wire.Replicas <= 1 && len(l.seen) == 1 && t.entries[0].span == l.seen[0]:
		t.holders[0].sliceMS, t.holders[0].coveredMS = all, l.seenMS
		return true
	default:
		return false
	}
}

// shareOut cuts the leaf's time wherever a hold begins or ends, shares each
// piece, and rounds once (R12).
func (t *timeline) shareOut(s *settler, l *leafState) {
	amounts := make([]*big.Rat, len(t.holders)+1)
	for i := range amounts {
		amounts[i] = new(big.Rat)
	}
	for _, piece := range t.pieces(l.seen) {
		sliceMS := int64(l.slices) * (piece.to - piece.from)
		counts, den := t.sharesAt(l, piece.from)
		free := den
		for i, n := range counts {
			if n == 0 {
				continue
			}
			t.holders[i].coveredMS += piece.to - piece.from
			amounts[i].Add(amounts[i], big.NewRat(sliceMS*int64(n), int64(den)))
			free -= n
		}
		last := len(amounts) - 1
		amounts[last].Add(amounts[last], big.NewRat(sliceMS*int64(free), int64(den)))
	}
	parts := make([]part, len(amounts))
	for i := range t.holders {
		parts[i] = part{amount: amounts[i], id: t.holders[i].id.id}
	}
	parts[len(parts)-1] = part{amount: amounts[len(amounts)-1], last: true}
	got := apportion(s.slotStartMS, int64(l.slices)*l.seenMS, parts)
	for i := range t.holders {
		t.holders[i].sliceMS = got[i]
	}
	t.freeMS = got[len(got)-1]
}

func (t *timeline) pieces(seen []span) []span {
	var cuts []int64
	for _, p := range seen {
		cuts = append(cuts, p.from, p.to)
	}
	for _, e := range t.entries {
		cuts = append(cuts, e.span.from, e.span.to)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []span
	for i := 1; i < len(cuts); i++ {
		piece := span{cuts[i-1], cuts[i]}
		for _, p := range seen {
			if p.contains(piece.from) {
				out = append(out, piece)
			}
		}
	}
	return out
}

// sharesAt counts each holder's entries at an instant, and the denominator:
// the known number of replicas, else, or with more entries than that, the
// entries present (R12). Nobody there: denominator 1.
func (t *timeline) sharesAt(l *leafState, at int64) (counts []int, den int) {
	counts = make([]int, len(t.holders))
	n := 0
	for _, e := range t.entries {
		if e.span.contains(at) {
			counts[e.holder]++
			n++
		}
	}
	if r := int(l.wire.Replicas); n <= r {
		return counts, max(r, 1)
	}
	return counts, n
}

// edges notes the shares where the slot's seen time begins and ends, if the
// leaf is there.
func (t *timeline) edges(s *settler, l *leafState) {
	first, last := s.observed[0].from, s.observed[len(s.observed)-1].to
	if l.span.contains(first) {
		t.sharesInto(l, first, t.head)
	}
	if l.span.contains(last - 1) {
		t.sharesInto(l, last-1, t.tail)
	}
}

func (t *timeline) sharesInto(l *leafState, at int64, into []Share) {
	counts, den := t.sharesAt(l, at)
	for i, n := range counts {
		if n > 0 {
			into[i] = makeShare(n, den)
		}
	}
}

// inferInside notes gaps inside the slot between equal holders, as Pending
// rows that carry the whole gap's slice_ms and the owner's share: the hour adds
// them to the slot's other inferred time and rounds once (R10, R12).
func (s *settler) inferInside(l *leafState, t *timeline) {
	for i := 1; i < len(s.observed); i++ {
		gap := span{s.observed[i-1].to, s.observed[i].from}
		if gap.to-gap.from > GapMaxMS || !l.span.contains(gap.from-1) || !l.span.contains(gap.to) {
			continue
		}
		before, after := make([]Share, len(t.holders)), make([]Share, len(t.holders))
		t.sharesInto(l, gap.from-1, before)
		t.sharesInto(l, gap.to, after)
		if !slices.Equal(before, after) {
			continue
		}
		for h, share := range before {
			if share != 0 {
				s.pendInferred(Row{
					Leaf: l.hash, Owner: t.holders[h].id.hash, Bucket: Pending, Why: WhyInferred,
					SliceMS: int64(l.slices) * (gap.to - gap.from), Head: share,
				})
			}
		}
	}
}

// pendInferred adds up rows of one key.
func (s *settler) pendInferred(r Row) {
	for i := range s.rows {
		if o := &s.rows[i]; o.Leaf == r.Leaf && o.Owner == r.Owner && o.Why == r.Why && o.Head == r.Head && o.Bucket == r.Bucket {
			o.SliceMS += r.SliceMS
			return
		}
	}
	s.add(r, -1, "")
}
