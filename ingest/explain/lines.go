package explain

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gputally/gputally/internal/meter"
)

// track is what one line may follow over several slots.
type track struct {
	leaf, owner uint64
	bucket      meter.Bucket
	code        string
	inferred    bool
}

// entry is a line in the making: a run of equal slots of one track.
type entry struct {
	track
	fromMS, toMS   int64 // Unix ms
	seenFromMS     int64 // the first and last instant observed of its slots
	seenToMS       int64
	slots          int
	node           string
	sliceMS        int64
	perSlot        int64
	energyMJ       int64
	unattributedMJ int64
	work           int64
	head, tail     meter.Share
	owners         int // on the leaf
	observedMS     int64
	otherWorks     string
	mig            bool
	evidence       evidence
	hasEvidence    bool
	whole          bool // of one slot that was seen whole, or of equal ones
}

// book is all entries of the hour, in the order of time.
type book struct {
	raw     *raw
	slices  int
	kind    meter.Kind
	entries []entry
	sum     meter.GPUHour // of all entries
	open    map[track]int // the last entry of each track
	uses    map[track]int // index of a leaf and owner in sum
	// holders counts the owners on each leaf in the slot held.
	holders map[uint64]int
	held    *cell
}

func newBook(p *replay) *book {
	return &book{raw: p.raw, slices: p.slices, kind: p.kind, open: map[track]int{}, uses: map[track]int{}, holders: map[uint64]int{}}
}

// add joins an entry to its track's last one, where it goes on alike.
func (b *book) add(e entry) {
	if e.sliceMS == 0 && e.energyMJ == 0 && e.unattributedMJ == 0 && e.work == 0 {
		return
	}
	addTo(&b.sum, b.uses, &e)
	e.perSlot = e.sliceMS
	if i, ok := b.open[e.track]; ok && b.entries[i].goesOn(&e) {
		b.entries[i].join(&e)
		return
	}
	b.open[e.track] = len(b.entries)
	b.entries = append(b.entries, e)
}

// goesOn says that o is more of the same: a largest remainder may move one
// slice-ms from slot to slot.
func (e *entry) goesOn(o *entry) bool {
	if e.toMS != o.fromMS || e.node != o.node || e.mig != o.mig || e.otherWorks != o.otherWorks || e.hasEvidence != o.hasEvidence {
		return false
	}
	if e.bucket == meter.Unobserved || e.inferred {
		return true
	}
	x, y := e.evidence, o.evidence
	return e.whole && o.whole && max(e.perSlot-o.perSlot, o.perSlot-e.perSlot) <= 1 && e.head == o.head && e.tail == o.tail && e.owners == o.owners &&
		x.source == y.source && x.power == y.power && x.deduced == y.deduced && x.stood == y.stood &&
		(x.u.n > 0) == (y.u.n > 0) && (x.p.n > 0) == (y.p.n > 0)
}

func (e *entry) join(o *entry) {
	e.toMS, e.seenToMS, e.slots = o.toMS, o.seenToMS, e.slots+o.slots
	e.sliceMS, e.energyMJ, e.unattributedMJ, e.work = e.sliceMS+o.sliceMS, e.energyMJ+o.energyMJ, e.unattributedMJ+o.unattributedMJ, e.work+o.work
	e.observedMS += o.observedMS
	e.evidence.a.join(o.evidence.a)
	e.evidence.u.join(o.evidence.u)
	e.evidence.p.join(o.evidence.p)
}

// segment books the rows of a segment's slots, then what the rules say beyond
// them: inferred time, and what nobody saw.
func (b *book) segment(s *segment) {
	for i := range s.cells {
		b.cell(&s.cells[i])
	}
	span := entry{fromMS: s.fromMS, toMS: s.toMS, seenFromMS: s.fromMS, seenToMS: s.toMS, slots: len(s.cells), node: s.node}
	for _, o := range s.added.Owners {
		e := span
		e.track = track{leaf: o.Leaf, owner: o.Owner, bucket: meter.Unproven, code: codeInferred, inferred: true}
		e.sliceMS = o.Inferred
		b.add(e)
		if s.kind == filled {
			e.code, e.inferred, e.sliceMS = codeFilled, false, o.Unproven-o.Inferred
			b.add(e)
		}
	}
	span.track = track{bucket: meter.Unobserved, code: b.unobservedCode(s.kind)}
	span.sliceMS = s.added.Unobserved
	for i := range s.cells {
		if c := &s.cells[i]; c.record != nil && c.kind != lost {
			span.energyMJ += platformOnly(c)
		}
	}
	b.add(span)
}

func (b *book) unobservedCode(k kind) string {
	switch k {
	case plain:
		if b.kind == meter.OpenPool {
			return codeOpenPool
		}
	case excess:
		return codeExcess
	case unread:
		return codeUnread
	case cut, lost, missing:
		return codeCut
	}
	return codeGap
}

// platformOnly is the energy of rows that count no time.
func platformOnly(c *cell) (mj int64) {
	for _, r := range c.record.Rows {
		if c.kind == excess || r.Bucket == meter.Unobserved || r.Bucket == meter.Pending {
			mj += r.EnergyMJ
		}
	}
	return mj
}

// cell books what the batch of one slot says.
func (b *book) cell(c *cell) {
	base := entry{
		fromMS: c.startMS, toMS: c.startMS + b.raw.slotMS, slots: 1, node: c.node, whole: c.kind != cut,
		observedMS: c.observedMS(b.raw.slotMS),
	}
	base.seenFromMS, base.seenToMS = c.bounds(b.raw.slotMS)
	all := int64(b.slices) * base.observedMS
	if c.kind == missing {
		base.track, base.sliceMS = track{bucket: meter.Unhealthy, code: codeMissing}, all
		b.add(base)
		return
	}
	if c.record == nil || c.kind == absent {
		return
	}
	if c.kind == lost {
		base.track, base.sliceMS = track{bucket: meter.Unhealthy, code: codeLost}, all
		for _, r := range c.record.Rows {
			base.energyMJ += r.EnergyMJ
		}
		b.add(base)
	}
	for _, r := range c.record.Rows {
		if r.UnattributedMJ != 0 {
			e := base
			e.track, e.sliceMS, e.energyMJ, e.unattributedMJ = track{code: codeNoSlot}, 0, 0, r.UnattributedMJ
			b.add(e)
		}
	}
	if c.kind == lost || c.kind == excess {
		return
	}
	if fewer := int64(b.slices-c.record.Slices) * base.observedMS; fewer > 0 && b.kind != meter.OpenPool {
		e := base
		e.track, e.sliceMS = track{bucket: meter.Stranded, code: codeFewer}, fewer
		b.add(e)
	}
	for i := range c.record.Rows {
		b.row(c, &c.record.Rows[i], base)
	}
}

// row books one stored row of a slot whose owners could be read, or its
// stranded part.
func (b *book) row(c *cell, r *meter.Row, e entry) {
	e.track = track{leaf: r.Leaf, owner: r.Owner, bucket: r.Bucket}
	e.sliceMS, e.energyMJ, e.work, e.head, e.tail = r.SliceMS, r.EnergyMJ, r.Work, r.Head, r.Tail
	switch r.Bucket {
	case meter.Active, meter.Idle, meter.Unproven:
		b.judge(c, r, &e)
	case meter.Free:
		e.code = codeNotHeld
		if r.Leaf == 0 {
			e.code = codePool
		} else if b.ownersOn(c, r.Leaf) == 0 {
			b.worksFree(c, r, &e)
		}
	case meter.Stranded:
		e.code = codeUncovered
	case meter.Unhealthy:
		e.code = codeFlagged
	default: // pending and listed-only rows count no time here
		return
	}
	b.add(e)
}

// worksFree tells work that nobody held the leaf for: it stays free (R4).
func (b *book) worksFree(c *cell, r *meter.Row, e *entry) {
	mig := onMIG(b.raw.samples[slotKey{c.node, c.startMS}])
	s := b.signals(c, r, mig)
	if v := decide(s, powerAbsent, situation{owners: 1, mig: mig}); v.bucket == meter.Active {
		e.code, e.mig, e.owners, e.hasEvidence = codeUnowned, mig, 0, true
		e.evidence.add(s, s.reading(), false)
	}
}

// judge finds the evidence behind a held row.
func (b *book) judge(c *cell, r *meter.Row, e *entry) {
	leaf := b.raw.leaves[r.Leaf]
	samples := b.raw.samples[slotKey{c.node, c.startMS}]
	at := situation{mig: onMIG(samples), owners: b.ownersOn(c, r.Leaf)}
	s := b.signals(c, r, at.mig)
	at.otherWorks = otherWorks(samples, leaf.Leaf)
	if s.none() && c.batch != nil && c.batch.Origin == originImport {
		e.code, e.owners = codeImported, at.owners
		return
	}
	at.covers = r.Bucket == meter.Idle || (at.owners == 1 && r.SliceMS == int64(leaf.Slices)*e.observedMS)
	code, p, deduced := why(r.Bucket, s, at)
	e.code, e.mig, e.owners, e.hasEvidence = code, at.mig, at.owners, s.kept
	if code == codeMIGOther {
		e.otherWorks = at.otherWorks
	}
	e.evidence.add(s, p, deduced)
}

// originImport is what the journal calls history brought in from elsewhere.
const originImport = "import"

// onMIG says that the board was sampled per instance.
func onMIG(samples map[string]sampleRow) bool {
	for device := range samples {
		if device != "" {
			return true
		}
	}
	return false
}

// ownersOn counts the owners of a leaf in a slot by their ids.
func (b *book) ownersOn(c *cell, leaf uint64) int {
	if b.held != c {
		b.held = c
		clear(b.holders)
		seen := map[holderKey]bool{}
		for _, r := range c.record.Rows {
			key := holderKey{r.Leaf, b.raw.owners[r.Owner].Owner}
			if r.Owner != 0 && r.Bucket != meter.Pending && !seen[key] {
				seen[key] = true
				b.holders[r.Leaf]++
			}
		}
	}
	return b.holders[leaf]
}

// holderKey is one owner, by its id, on one leaf.
type holderKey struct {
	leaf uint64
	id   string
}

// signals reads the kept evidence of a row's leaf. Its activity is taken from
// the row's work, which is finer, where the sample agrees.
func (b *book) signals(c *cell, r *meter.Row, mig bool) signals {
	var s signals
	samples := b.raw.samples[slotKey{c.node, c.startMS}]
	board, okBoard := samples[""]
	device := board
	s.kept = okBoard
	if mig {
		device, s.kept = samples[b.raw.leaves[r.Leaf].Leaf]
	}
	if m, ok := meter.ModelByName(c.record.Model); ok {
		s.idleWatts = m.IdleWatts
	}
	s.source, s.a = activity(device)
	if a, tolerance := exactA(r); s.source != "" && max(a-s.a, s.a-a) <= tolerance {
		s.a = a
	}
	if device.Present&bitUtil != 0 && device.Util <= 100 && !mig {
		s.utilOK, s.util = true, float64(device.Util)
	}
	if okBoard && board.Present&bitPower != 0 {
		s.wattsOK, s.watts = true, float64(board.Power)/10
	}
	if board.Present&bitEnergy != 0 && energyOf(c.record) == 0 {
		s.stood = true
	}
	return s
}

// bitEnergy says that the energy counter was read.
const bitEnergy = 1 << 6

// activity is A of R13 as sampled.
func activity(s sampleRow) (source string, a float64) {
	switch {
	case s.Present&bitSM != 0 && s.SM <= 1e4:
		return fromSM, float64(s.SM) / 1e4
	case s.Present&bitGR != 0 && s.GR <= 1e4:
		return fromGR, float64(s.GR) / 1e4
	}
	return "", 0
}

// otherWorks names another instance of the board whose activity isn't quiet.
func otherWorks(samples map[string]sampleRow, leaf string) string {
	var names []string
	for device, s := range samples {
		if source, a := activity(s); device != "" && device != leaf && source != "" && a >= meter.QuietBelow {
			names = append(names, device)
		}
	}
	sort.Strings(names)
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func energyOf(r *meter.Record) (mj int64) {
	for _, row := range r.Rows {
		mj += row.EnergyMJ + row.UnattributedMJ
	}
	return mj
}

// sorted are the entries by time, leaf, owner and bucket.
func (b *book) sorted() []entry {
	slices.SortStableFunc(b.entries, func(x, y entry) int {
		return cmp.Or(
			cmp.Compare(x.fromMS, y.fromMS),
			cmp.Compare(b.raw.leaves[x.leaf].Leaf, b.raw.leaves[y.leaf].Leaf),
			cmp.Compare(b.raw.owners[x.owner].label(), b.raw.owners[y.owner].label()),
			cmp.Compare(x.bucket, y.bucket), cmp.Compare(x.code, y.code),
		)
	})
	return b.entries
}
