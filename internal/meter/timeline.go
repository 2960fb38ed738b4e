package meter

import (
	"cmp"
	"slices"

	"github.com/gputally/gputally/internal/wire"
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

// timeline is who held a leaf and when, over the observed parts of the slot.
type timeline struct {
	holders []holder
	index   map[string]int // of holders by id, used where there are many
	freeMS  int64          // slice-ms
	entries []entry
	// head and tail are the holders' shares at the first and the last observed instant
	// of the slot; 0 if the leaf doesn't exist then.
	head, tail []Share
}

// holder is one owner of the leaf in this slot, in order of its id.
type holder struct {
	id        ownerID
	sliceMS   int64
	coveredMS int64 // time of the slot covered by at least one of its entries
}

// entry is one hold, clipped to the existence of its leaf and to the observed parts.
type entry struct {
	holder int
	span   span
}

func (s *classifier) timeline(l *leafState) timeline {
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

// holder finds the owner's index, or adds the owner. Two sets of facts with one id are
// one owner, named by the smaller hash.
func (t *timeline) holder(id ownerID) int {
	i, n := t.find(id.id), len(t.holders)
	if i < n {
		t.holders[i].id.hash = min(t.holders[i].id.hash, id.hash)
		return i
	}
	t.holders = append(t.holders, holder{id: id})
	return n
}

// find returns the holder's index, or where to insert it.
func (t *timeline) find(id string) int {
	n := len(t.holders)
	if n < fewOwners {
		i := slices.IndexFunc(t.holders, func(h holder) bool { return h.id.id == id })
		if i < 0 {
			return n
		}
		return i
	}
	if t.index == nil {
		t.index = make(map[string]int, 2*n)
		for i := range t.holders {
			t.index[t.holders[i].id.id] = i
		}
	}
	i, ok := t.index[id]
	if !ok {
		t.index[id], i = n, n
	}
	return i
}

// whole handles the common case: no holder, or one entry over the whole observed time,
// without replicas.
func (t *timeline) whole(s *classifier, l *leafState) bool {
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

// shareOut cuts the leaf's time wherever a hold begins or ends, divides each piece,
// and rounds once at the end (R12).
func (t *timeline) shareOut(s *classifier, l *leafState) {
	held := fractions{parties: len(t.holders)}
	t.sweep(func(ms int64, present int, counts []int, who []int) {
		sliceMS, class := int64(l.slices)*ms, held.class(int64(l.denominator(present)))
		for _, i := range who {
			t.holders[i].coveredMS += ms
			class[i] += sliceMS * int64(counts[i])
		}
	})
	ids := make([]string, len(t.holders))
	for i := range ids {
		ids[i] = t.holders[i].id.id
	}
	got, free := held.apportion(s.slotStartMS, int64(l.slices)*l.seenMS, ids)
	for i := range t.holders {
		t.holders[i].sliceMS = got[i]
	}
	t.freeMS = free
}

// sweep visits the pieces between successive begins or ends of entries, with the
// number of entries present (present), and the holders among them (who) with their
// numbers of entries (counts, by holder).
func (t *timeline) sweep(visit func(ms int64, present int, counts, who []int)) {
	type change struct {
		at     int64
		holder int
		by     int
	}
	changes := make([]change, 0, 2*len(t.entries))
	for _, e := range t.entries {
		changes = append(changes, change{e.span.from, e.holder, 1}, change{e.span.to, e.holder, -1})
	}
	slices.SortFunc(changes, func(x, y change) int { return cmp.Compare(x.at, y.at) })
	counts, present := make([]int, len(t.holders)), 0
	var who []int
	for i, c := range changes {
		if i > 0 && present > 0 && changes[i-1].at < c.at {
			who = slices.DeleteFunc(who, func(h int) bool { return counts[h] == 0 })
			visit(c.at-changes[i-1].at, present, counts, who)
		}
		if counts[c.holder] == 0 && !slices.Contains(who, c.holder) {
			who = append(who, c.holder)
		}
		counts[c.holder] += c.by
		present += c.by
	}
}

// denominator is the number of replicas if it is known, or the number of entries
// present if that is greater (R12); 1 if there is no entry.
func (l *leafState) denominator(present int) int {
	if r := int(l.wire.Replicas); present <= r {
		return max(r, 1)
	}
	return max(present, 1)
}

// sharesAt counts each holder's entries at an instant, and the denominator.
func (t *timeline) sharesAt(l *leafState, at int64) (counts []int, den int) {
	counts = make([]int, len(t.holders))
	n := 0
	for _, e := range t.entries {
		if e.span.contains(at) {
			counts[e.holder]++
			n++
		}
	}
	return counts, l.denominator(n)
}

// edges sets the shares at the first and the last observed instant of the slot, if the
// leaf exists then.
func (t *timeline) edges(s *classifier, l *leafState) {
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

// inferInside adds the gaps inside the slot between equal holders, as Pending rows
// with the slice_ms of the whole gap and the owner's share. Hour adds them to the
// slot's other inferred time and rounds once (R10, R12). Rows of the same owner and
// share are added up.
func (s *classifier) inferInside(l *leafState, t *timeline) {
	type key struct {
		owner uint64
		share Share
	}
	noted := map[key]int{}
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
		sliceMS := int64(l.slices) * (gap.to - gap.from)
		for h, share := range before {
			if share == 0 {
				continue
			}
			owner := t.holders[h].id.hash
			if at, ok := noted[key{owner, share}]; ok {
				s.rows[at].SliceMS += sliceMS
				continue
			}
			noted[key{owner, share}] = len(s.rows)
			s.add(Row{Leaf: l.hash, Owner: owner, Bucket: Pending, Why: WhyInferred, SliceMS: sliceMS, Head: share}, -1, "")
		}
	}
}
