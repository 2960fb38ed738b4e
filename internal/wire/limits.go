package wire

import (
	"errors"
	"fmt"
	"slices"
)

// The limits of the contract: what hardware can have, and what can be classified in a tenth of a second. A batch that
// exceeds one is refused whole, with the reason "limits", since it contradicts hardware; a reading that exceeds one
// is absent. docs/reference/formats.md lists them.
const (
	// MaxNameBytes is the length of a name: an identifier of capacity (cluster, node, collector, GPU, model, leaf,
	// profile), and the result of Name for an owner fact. Names in Kubernetes have up to 253 bytes, but rarely this
	// many.
	MaxNameBytes = 200
	// MaxTextBytes is the length of any other string, and of an owner fact before Name.
	MaxTextBytes = 1 << 10

	// MinTimeMS is 2000-01-01T00:00:00Z: older times come from clocks that were never set. MaxTimeMS is
	// 2106-02-07T06:28:16Z, the end of the range of the tables' seconds.
	MinTimeMS = 946_684_800_000
	MaxTimeMS = 1000 << 32
	// MaxSeq is a batch per millisecond for 34 years, small enough for sums.
	MaxSeq = 1 << 40

	// MaxGPUs is the number of boards of a node: the largest have 72 in one rack.
	MaxGPUs = 256
	// MaxPools is the number of pools of a node: one per model.
	MaxPools = 256
	// MaxSlices is the number of compute slices of a board or leaf: 7 today.
	MaxSlices = 1 << 10
	// MaxPoolSlices is a million GPUs in milli-GPUs: of a pool, and of all pools of a batch together.
	MaxPoolSlices = 1_000_000_000

	// MaxLeavesAtOnce is the number of leaves of a board at one instant: MIG has at most 7 compute instances.
	// MaxBoardLeaves is the number in one slot, in which MIG may be reconfigured.
	MaxLeavesAtOnce = 64
	MaxBoardLeaves  = 1 << 10
	// MaxLeaves is the number of leaves of a batch, of all boards and pools: each allocation of a pool is a leaf.
	MaxLeaves = 1 << 14
	// MaxHolds is the number of holds of a batch.
	MaxHolds = 1 << 14
	// MaxHolders is the number of holds of a leaf at one instant. Time slicing and MPS share a board among at most 48
	// clients.
	MaxHolders = 128
	// MaxCost is the cost of classifying a batch, in the units of leafCost: about a tenth of a second. It is computed
	// from the batch's content, so that a replay on a slower machine has the same result.
	MaxCost = 1_200_000
	// MaxReplicas bounds a share's denominator, which is stored in 16 bits.
	MaxReplicas = 1<<16 - 1

	// MaxObserved is the number of parts into which clock steps and failures divide a slot.
	MaxObserved = 64
	// MaxEvents is the number of events of a slot.
	MaxEvents = 1 << 12
	// MaxGaps is the number of lost ranges of sequence numbers that one batch announces; the next batch announces the
	// rest.
	MaxGaps = 1 << 12
	// MaxReasons is the number of reasons in a boot's counters.
	MaxReasons = 64
	// MaxMetrics is the number of other metrics of a GPU or leaf.
	MaxMetrics = 256

	// MaxWatts is more than any board's power. Higher readings are wrong: absent.
	MaxWatts = 3000
	// EnergyToleranceMS is added to the duration of an energy delta when it is compared with MaxWatts: a counter is
	// read up to one sampling period (1 s) late at either end.
	EnergyToleranceMS = 2000
	// MaxEnergySpanMS is 397 days, longer than a counter runs without being read. The energy of a longer span is
	// absent.
	MaxEnergySpanMS = 1 << 35
)

// limitError is a batch that contradicts hardware or is too costly.
type limitError struct{ reason, text string }

func (e *limitError) Error() string { return e.text }

func over(format string, args ...any) error {
	return &limitError{"limits", fmt.Sprintf(format, args...)}
}

// checker checks one batch against the limits, and computes its cost.
type checker struct {
	slotMS int64
	parts  int // of the slot
	cost   int
	text   int // bytes of owner facts
}

func (c *checker) spend(cost int) error {
	if c.cost += cost; c.cost > MaxCost {
		text := fmt.Sprintf("the batch costs at least %d units to classify, more than %d", c.cost, MaxCost)
		return &limitError{"too_costly", text}
	}
	return nil
}

// name refuses a text that Name would change: changed, it would name other capacity than the sender's.
func (c *checker) name(field, s string) error {
	if plain(s) {
		return nil
	}
	if len(s) > MaxNameBytes {
		return over("%s %s: %d bytes, more than %d", field, shown(s), len(s), MaxNameBytes)
	}
	if err := c.spend(len(s)); err != nil {
		return err
	}
	if Name(s) != s {
		return over("%s %s: not in NFC, or has invisible characters or spaces at its ends", field, shown(s))
	}
	return nil
}

// owner accepts facts of any content: Name converts them to names.
func (c *checker) owner(o *Owner) error {
	if o == nil {
		return errors.New("owner is missing")
	}
	for i, s := range facts(o) {
		if len(s) > MaxTextBytes {
			return checkText("owner."+factNames[i], s)
		}
		c.text += len(s)
	}
	return nil
}

var factNames = [...]string{"tenant", "project", "namespace", "pod", "uid", "container", "job", "user", "account"}

func facts(o *Owner) [9]string {
	return [...]string{o.Tenant, o.Project, o.Namespace, o.Pod, o.Uid, o.Container, o.Job, o.User, o.Account}
}

// fewFacts is the size in bytes of owner facts whose cost needs no check.
const fewFacts = 128 << 10

// ownersText adds the cost of Name.
func (c *checker) ownersText(b *Batch) error {
	if c.text <= fewFacts {
		return nil
	}
	for _, g := range b.Gpus {
		for _, h := range g.Holds {
			for _, s := range facts(h.Owner) {
				if plain(s) {
					continue
				}
				if err := c.spend(len(s)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func checkText(field, s string) error {
	if len(s) > MaxTextBytes {
		return over("%s %s: %d bytes, more than %d", field, shown(s), len(s), MaxTextBytes)
	}
	return nil
}

// shown is the beginning of a text, quoted.
func shown(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// count is a number in a batch with its limit.
type count struct {
	field string
	n     int
	most  int
}

func checkCounts(counts ...count) error {
	for _, c := range counts {
		if c.n > c.most {
			return over("%s: %d, more than %d", c.field, c.n, c.most)
		}
	}
	return nil
}

// withinLimits checks the batch's numbers outside the GPUs, and the lengths of its lists.
func (c *checker) withinLimits(b *Batch) error {
	boards, pools, leaves, holds, poolSlices := 0, 0, 0, 0, 0
	for _, g := range b.Gpus {
		leaves, holds = leaves+len(g.GetLeaves()), holds+len(g.GetHolds())
		if g.GetPool() {
			pools, poolSlices = pools+1, poolSlices+int(g.GetSlices())
		} else {
			boards++
		}
	}
	if err := checkCounts(
		count{"gpus", boards, MaxGPUs}, count{"pools", pools, MaxPools},
		count{"slices of all pools", poolSlices, MaxPoolSlices},
		count{"leaves of all gpus", leaves, MaxLeaves}, count{"holds of all gpus", holds, MaxHolds},
		count{"observed", len(b.Observed), MaxObserved}, count{"events", len(b.Events), MaxEvents},
		count{"gaps", len(b.Gaps), MaxGaps}, count{"counters.dropped", len(b.GetCounters().GetDropped()), MaxReasons},
	); err != nil {
		return err
	}
	for _, f := range identityOf(b) {
		if err := c.name(f.name, f.value); err != nil {
			return err
		}
	}
	if err := checkSequence(b); err != nil {
		return err
	}
	for i, e := range b.Events {
		if e.AtMs < 0 || e.AtMs > b.SlotMs {
			return over("events[%d].at_ms %d: must lie within the slot of %d ms", i, e.AtMs, b.SlotMs)
		}
		for _, s := range [...]string{e.Gpu, e.Leaf, e.Kind, e.Detail} {
			if err := checkText("text", s); err != nil {
				return fmt.Errorf("events[%d]: %w", i, err)
			}
		}
	}
	return nil
}

// checkSequence checks the ranges of numbers that are added and compared later.
func checkSequence(b *Batch) error {
	switch {
	case b.BootMs > MaxTimeMS:
		return over("boot_ms %d: more than %d", b.BootMs, int64(MaxTimeMS))
	case b.Seq > MaxSeq:
		return over("seq %d: more than %d", b.Seq, uint64(MaxSeq))
	}
	if p := b.Predecessor; p != nil && (p.BootMs < 0 || p.BootMs > MaxTimeMS || p.LastSeq > MaxSeq) {
		return over("predecessor: boot_ms %d or last_seq %d: no boot has these", p.BootMs, p.LastSeq)
	}
	for i, g := range b.Gaps {
		if g.BootMs < 0 || g.BootMs > MaxTimeMS || g.ToSeq > MaxSeq || g.FromSeq > g.ToSeq {
			return over("gaps[%d]: %d to %d of boot %d: no boot has these", i, g.FromSeq, g.ToSeq, g.BootMs)
		}
		if err := checkText("reason", g.Reason); err != nil {
			return fmt.Errorf("gaps[%d]: %w", i, err)
		}
	}
	c := b.GetCounters()
	most := max(c.GetSampled(), c.GetSpooled(), c.GetSpoolDropped())
	for reason, n := range c.GetDropped() {
		if err := checkText("counters.dropped", reason); err != nil {
			return err
		}
		most = max(most, n)
	}
	if most > MaxSeq {
		return over("counters: %d is more than %d", most, uint64(MaxSeq))
	}
	return nil
}

// crowds checks how many leaves of a GPU, and how many holds of a leaf, there are at one instant, and adds the cost
// of sharing.
func (c *checker) crowds(g *Gpu) error {
	if len(g.Leaves) > MaxLeavesAtOnce && !g.Pool {
		var at crowd
		for _, l := range g.Leaves {
			at.add(l.FromMs, l.ToMs, c.slotMS)
		}
		if n := at.most(); n > MaxLeavesAtOnce {
			return over("leaves: %d at one instant, more than %d", n, MaxLeavesAtOnce)
		}
	}
	cost := len(g.Leaves) * c.parts
	if few := len(g.Holds); few <= fewHolds {
		return c.spend(cost + leafCost(few, few, c.parts))
	}
	holds := make(map[string]*crowd, len(g.Leaves))
	for _, h := range g.Holds {
		at := holds[h.Leaf]
		if at == nil {
			at = &crowd{}
			holds[h.Leaf] = at
		}
		at.add(h.FromMs, h.ToMs, c.slotMS)
	}
	for leaf, at := range holds {
		most := at.most()
		if most > MaxHolders {
			return over("leaf %s: %d holds at one instant, more than %d", shown(leaf), most, MaxHolders)
		}
		cost += leafCost(len(at.from), most, c.parts)
	}
	return c.spend(cost)
}

// fewHolds is the number of holds of a GPU that need no further check.
const fewHolds = 32

// leafCost is the cost of sharing a leaf: each hold is sorted into each part, compared with the others of that part,
// and summed over as many denominators. A unit is about 50 ns, the cost of one byte in Name.
func leafCost(holds, atOnce, parts int) int { return holds * parts * (atOnce + 8) }

// crowd is a set of time spans within the slot, in ms.
type crowd struct{ from, to []int64 }

func (c *crowd) add(from, to *int64, slotMS int64) {
	if lo, hi := Span(from, to, slotMS); lo < hi {
		c.from, c.to = append(c.from, lo), append(c.to, hi)
	}
}

// most is the largest number of spans at one instant.
func (c *crowd) most() (most int) {
	slices.Sort(c.from)
	slices.Sort(c.to)
	ended := 0
	for i, at := range c.from {
		for c.to[ended] <= at {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}

// Energy returns the energy delta of a GPU in mJ, and the time in ms that it covers. ok is false if nothing was read,
// or if the delta exceeds what MaxWatts allow: then it is absent (R16).
func Energy(g *Gpu, slotMS int64) (mj, spanMS int64, ok bool) {
	if g.EnergyMj == nil {
		return 0, 0, false
	}
	mj, spanMS = *g.EnergyMj, slotMS
	if g.EnergySpanMs != nil {
		spanMS = *g.EnergySpanMs
	}
	if spanMS > MaxEnergySpanMS || mj > MaxWatts*(spanMS+EnergyToleranceMS) { // W × ms = mJ
		return 0, 0, false
	}
	return mj, spanMS, true
}
