package meter_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// The slow model: the rules of metering read aloud. It cuts every slot at every
// boundary, knows only fractions, and looks at all of a GPU's life at once. It
// shares nothing with the code it judges but the owner's id and the model table.

const (
	slowHourMS   = 3_600_000
	slowGapMS    = 30_000
	slowRetireMS = 24 * slowHourMS
)

// slowKind is what has the slices (R18).
type slowKind int

const (
	slowBoard    slowKind = iota
	slowPool              // milli-GPUs of a pool
	slowOpenPool          // of a pool of unknown capacity
)

func slowKindOf(g *wire.Gpu) slowKind {
	switch {
	case g.Pool && g.UnknownCapacity:
		return slowOpenPool
	case g.Pool:
		return slowPool
	default:
		return slowBoard
	}
}

// slowLeaf is the identity of a leaf under R10.
type slowLeaf struct {
	id, profile, uuid string
	gi, ci            int64
	slices            int64
}

// slowKnowledge is what is known of a GPU for a while.
type slowKnowledge int

const (
	slowNothing      slowKnowledge = iota // nobody looked
	slowContradicted                      // the slot's word isn't taken: capacity (slice)
	slowLost                              // R9.2
	slowOwnerless                         // attribution failed: leaves without holders
	slowAll                               // leaves and holders
)

// slowCell is a stretch of a GPU's life in which nothing changes.
type slowCell struct {
	slot     int64 // start of its slot
	life     int   // of its slot
	from, to int64
	node     string
	what     slowKnowledge
	leaves   map[slowLeaf]*slowUse
	inferred map[slowLeaf]map[string]*big.Rat // R10: owner id to share
}

func (c *slowCell) ms() int64 { return c.to - c.from }

// slowUse is a leaf in a cell: who holds how much of it, and what that time is.
type slowUse struct {
	share map[string]*big.Rat // owner id to share
	what  map[string]string   // owner id to active, idle, unproven or unhealthy
	rest  string              // free or unhealthy
	a     *big.Rat            // A of R13, nil: absent
}

// holders is what the use says to a gap beside it: time that went to unhealthy
// holds nothing.
func (u *slowUse) holders() map[string]*big.Rat {
	out := map[string]*big.Rat{}
	for id, s := range u.share {
		if u.what[id] != "unhealthy" {
			out[id] = s
		}
	}
	return out
}

// slowSlot is one slot of a GPU's inventory.
type slowSlot struct {
	start  int64
	node   string
	batch  *wire.Batch // the node's winning batch, nil: none
	record *wire.Gpu   // the GPU in it, nil: not listed
	slices int64       // capacity of the hour
	kind   slowKind    // and of what
	life   int         // how often the GPU was closed before
	cells  []*slowCell
}

type slowModel struct {
	slotMS      int64
	watermark   int64
	nodes       map[string]map[int64]*wire.Batch // winning batches
	retirements map[string][]int64               // instants at which people closed a GPU's inventory
	owners      map[string]meter.Owner
	out         map[usageKey]usage
}

// slowUsage is usage by hour, GPU and tenant, as in the worked cases.
func slowUsage(batches []*wire.Batch, retirements map[string][]int64) map[usageKey]usage {
	m := &slowModel{
		slotMS: batches[0].SlotMs, retirements: retirements, nodes: map[string]map[int64]*wire.Batch{},
		owners: map[string]meter.Owner{}, out: map[usageKey]usage{},
	}
	uuids := map[string]bool{}
	for _, b := range batches {
		if m.nodes[b.Node] == nil {
			m.nodes[b.Node] = map[int64]*wire.Batch{}
		}
		if old := m.nodes[b.Node][b.SlotStartMs]; old == nil || slowBeats(b, old) {
			m.nodes[b.Node][b.SlotStartMs] = b
		}
		m.watermark = max(m.watermark, b.SlotStartMs+b.SlotMs)
	}
	for _, slots := range m.nodes {
		for _, b := range slots {
			for _, g := range b.Gpus {
				uuids[g.Uuid] = true
			}
		}
	}
	for uuid := range uuids {
		m.gpu(uuid)
	}
	return m.out
}

// slowBeats is R1.
func slowBeats(a, b *wire.Batch) bool {
	ok := func(x *wire.Batch) int {
		if x.Attribution == wire.Attribution_ATTRIBUTION_FAILED {
			return 0
		}
		return 1
	}
	seen := func(x *wire.Batch) (ms int64) {
		for _, o := range slowObserved(x) {
			ms += o[1] - o[0]
		}
		return ms
	}
	hash := func(x *wire.Batch) string {
		data, err := wire.Encode(x)
		if err != nil {
			panic(err)
		}
		h := wire.Hash(x, data)
		return string(h[:])
	}
	return cmp.Or(
		cmp.Compare(ok(a), ok(b)), cmp.Compare(seen(a), seen(b)), cmp.Compare(a.BootMs, b.BootMs),
		cmp.Compare(a.Collector, b.Collector), cmp.Compare(a.Seq, b.Seq), cmp.Compare(hash(a), hash(b)),
	) > 0
}

// slowObserved lists what was seen, in ms of the slot.
func slowObserved(b *wire.Batch) [][2]int64 {
	var out [][2]int64
	for _, o := range b.Observed {
		out = append(out, [2]int64{o.FromMs, o.ToMs})
	}
	if len(out) == 0 && !b.Unobserved {
		out = append(out, [2]int64{0, b.SlotMs})
	}
	if b.Unobserved {
		return nil
	}
	return out
}

// gpu follows one GPU from its first record to the watermark.
func (m *slowModel) gpu(uuid string) {
	life := m.inventory(uuid)
	slowCapacity(life)
	var cells []*slowCell
	for _, s := range life {
		m.cut(s)
		cells = append(cells, s.cells...)
	}
	slowGaps(cells)
	for _, s := range life {
		m.account(uuid, s)
	}
}

// record is what a node's winning batch says of a GPU in a slot.
func (m *slowModel) record(node, uuid string, start int64) *wire.Gpu {
	if b := m.nodes[node][start]; b != nil {
		for _, g := range b.Gpus {
			if g.Uuid == uuid {
				return g
			}
		}
	}
	return nil
}

// inventory is R2 and R14: the slots in which the GPU is present, and the node
// that has it in each.
func (m *slowModel) inventory(uuid string) []*slowSlot {
	first := int64(math.MaxInt64)
	for node, slots := range m.nodes {
		for start := range slots {
			if m.record(node, uuid, start) != nil {
				first = min(first, start)
			}
		}
	}
	var life []*slowSlot
	node, presentTo, closed := "", int64(0), int64(0)
	for start := first; start < m.watermark; start += m.slotMS {
		lives := 0
		for _, at := range m.retirements[uuid] {
			if at == start { // it is gone, until somebody lists it
				presentTo, closed = 0, at
			}
			if at <= start {
				lives++
			}
		}
		chosen, chosenRun := "", int64(0)
		for _, n := range slices.Sorted(maps.Keys(m.nodes)) {
			if m.record(n, uuid, start) == nil {
				continue
			}
			run := start
			for run > closed && m.record(n, uuid, run-m.slotMS) != nil {
				run -= m.slotMS
			}
			if chosen == "" || run > chosenRun {
				chosen, chosenRun = n, run
			}
		}
		if chosen != "" {
			node, presentTo = chosen, start+m.slotMS+slowRetireMS
			if slowKindOf(m.record(node, uuid, start)) == slowOpenPool { // where nobody says what there is, there is nothing
				presentTo = start + m.slotMS
			}
		}
		if start < presentTo {
			life = append(life, &slowSlot{start: start, life: lives, node: node, batch: m.nodes[node][start], record: m.record(node, uuid, start)})
		}
	}
	return life
}

// slowSlices is what a record says of the GPU's slices: the device, else the
// model table, else 1; 0 is a lost GPU's that says nothing.
func slowSlices(g *wire.Gpu) int64 {
	model, known := meter.ModelByName(g.Model)
	switch {
	case g.Slices > 0:
		return int64(g.Slices)
	case g.Lost && !known:
		return 0
	default:
		return int64(model.Slices)
	}
}

// slowCapacity gives each slot its hour's capacity: the hour's first record's,
// else the last one before.
func slowCapacity(life []*slowSlot) {
	type capacity struct {
		slices int64
		kind   slowKind
	}
	first, hours, last := map[int64]capacity{}, map[int64]capacity{}, capacity{slices: 1}
	for _, s := range life {
		hour := s.start / slowHourMS
		if s.record != nil && first[hour].slices == 0 {
			first[hour] = capacity{slowSlices(s.record), slowKindOf(s.record)}
		}
	}
	for _, s := range life {
		hour := s.start / slowHourMS
		if hours[hour].slices == 0 {
			hours[hour] = cmp.Or(first[hour], last)
			if hours[hour].slices == 0 {
				hours[hour] = last
			}
		}
		s.slices, s.kind = hours[hour].slices, hours[hour].kind
		if s.record != nil && slowSlices(s.record) > 0 {
			last = capacity{slowSlices(s.record), slowKindOf(s.record)}
		}
	}
}

// slowGaps is R10: a leaf's gap between equal holders belongs to them.
func slowGaps(cells []*slowCell) {
	for i, left := range cells {
		if left.what != slowAll {
			continue
		}
		for leaf, use := range left.leaves {
			holders := use.holders()
			if len(holders) == 0 {
				continue
			}
			j := i + 1
			for j < len(cells) && slowTransparent(cells[j], leaf) && cells[j].node == left.node && cells[j].life == left.life && cells[j].from == cells[j-1].to && cells[j].to-left.to <= slowGapMS {
				j++
			}
			if j == i+1 || j == len(cells) || cells[j].what != slowAll || cells[j].node != left.node || cells[j].life != left.life || cells[j].from != cells[j-1].to {
				continue
			}
			right := cells[j].leaves[leaf]
			if right == nil || !maps.EqualFunc(holders, right.holders(), func(a, b *big.Rat) bool { return a.Cmp(b) == 0 }) {
				continue
			}
			for _, c := range cells[i+1 : j] {
				c.inferred[leaf] = holders
			}
		}
	}
}

// slowTransparent says whether a cell is part of a leaf's gap.
func slowTransparent(c *slowCell, leaf slowLeaf) bool {
	return c.what == slowNothing || c.what == slowOwnerless && c.leaves[leaf] != nil
}

// account puts a slot's slice-ms into buckets, and its energy to whom it is due.
func (m *slowModel) account(uuid string, s *slowSlot) {
	settled, inferred := map[slowLeaf]*slowParties{}, map[slowLeaf]*slowParties{}
	var platform usage
	for _, c := range s.cells {
		known := int64(0) // slices of which something is known
		switch c.what {
		case slowLost:
			platform.unhealthy += s.slices * c.ms()
			known = s.slices
		case slowAll:
			for leaf, use := range c.leaves {
				slowParty(settled, leaf).addUse(leaf, use, c.ms())
			}
			known = s.slices - m.uncovered(&platform, s, c)
		case slowOwnerless:
			known = s.slices - c.covered() - m.uncovered(&platform, s, c)
		}
		for leaf, holders := range c.inferred {
			slowParty(inferred, leaf).addUse(leaf, slowInferred(holders), c.ms())
			known += leaf.slices
		}
		platform.unobserved += (s.slices - known) * c.ms()
	}
	for _, p := range inferred {
		m.book(uuid, s, p)
	}
	for _, p := range settled {
		m.book(uuid, s, p)
	}
	m.add(uuid, s.start, "", platform)
	m.energy(uuid, s, settled)
}

// uncovered books the slices that no leaf covers, and answers of how many of
// them nothing is known.
func (m *slowModel) uncovered(platform *usage, s *slowSlot, c *slowCell) (unknown int64) {
	gone := s.slices - slowSlices(s.record) // fewer than the hour began with
	rest := slowSlices(s.record) - c.covered()
	switch {
	case s.kind == slowOpenPool:
		return gone + rest
	case s.kind == slowBoard:
		gone += rest
	case c.what == slowOwnerless:
		unknown = rest
	case s.record.Unhealthy:
		platform.unhealthy += rest * c.ms()
	default:
		platform.free += rest * c.ms()
	}
	platform.stranded += gone * c.ms()
	return unknown
}

func (c *slowCell) covered() (n int64) {
	for leaf := range c.leaves {
		n += leaf.slices
	}
	return n
}

func slowInferred(holders map[string]*big.Rat) *slowUse {
	use := &slowUse{share: holders, what: map[string]string{}, rest: "unobserved"}
	for id := range holders {
		use.what[id] = "unproven"
	}
	return use
}

func (m *slowModel) add(uuid string, start int64, tenant string, u usage) {
	key := usageKey{hourText(start - start%slowHourMS), uuid, tenant}
	sum := m.out[key]
	sum.active += u.active
	sum.idle += u.idle
	sum.unproven += u.unproven
	sum.free += u.free
	sum.stranded += u.stranded
	sum.unhealthy += u.unhealthy
	sum.unobserved += u.unobserved
	sum.energy += u.energy
	if sum != (usage{}) {
		m.out[key] = sum
	}
}

// slowLuck orders ties: the smallest SHA-256 of "slot start in ms/owner id".
func slowLuck(start int64, owner string) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d/%s", start, owner))
	return string(h[:])
}
