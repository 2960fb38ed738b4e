package wire

import (
	"errors"
	"fmt"
	"slices"
)

// The limits of the contract: what hardware can have, and what can be settled in
// a tenth of a second. A batch over one of them is refused whole, with the reason
// "limits", since it contradicts hardware; a reading over one is absent.
// docs/reference/formats.md lists them.
const (
	// MaxNameBytes is the length of a name: what identifies capacity (cluster,
	// node, collector, GPU, model, leaf, profile), and what Name makes of an owner
	// fact. Kubernetes' own names end at 253 bytes, hardly any comes near it.
	MaxNameBytes = 200
	// MaxTextBytes is the length of any other string, and of an owner fact before
	// Name.
	MaxTextBytes = 1 << 10

	// MinTimeMS is 2000-01-01T00:00:00Z: no GPU was metered before, and a clock that
	// was never set shows 1970. MaxTimeMS is 2106-02-07T06:28:16Z, where the seconds
	// of rows end.
	MinTimeMS = 946_684_800_000
	MaxTimeMS = 1000 << 32
	// MaxSeq is a batch per millisecond for 34 years. Checks add to it.
	MaxSeq = 1 << 40

	// MaxGPUs is how many boards a node has: the largest have 72 in one rack.
	MaxGPUs = 256
	// MaxPools is how many pools a node has: one per model.
	MaxPools = 256
	// MaxSlices is the compute slices of a board or of its leaf: 7 today.
	MaxSlices = 1 << 10
	// MaxPoolSlices is a million GPUs in milli-GPUs: of a pool, and of all pools of
	// a batch together.
	MaxPoolSlices = 1_000_000_000

	// MaxLeavesAtOnce is how many leaves of a board exist at one instant: MIG has 7
	// compute instances at most. MaxBoardLeaves is how many exist in one slot, when
	// MIG is cut anew in it.
	MaxLeavesAtOnce = 64
	MaxBoardLeaves  = 1 << 10
	// MaxLeaves is how many leaves a batch has, of all boards and pools: an
	// allocation of a pool is one.
	MaxLeaves = 1 << 14
	// MaxHolds is how many holds a batch has.
	MaxHolds = 1 << 14
	// MaxHolders is how many holds of a leaf there are at one instant. Time slicing
	// and MPS share a board among 48 clients at most.
	MaxHolders = 128
	// MaxCost is what settling a batch may cost, in the units of leafCost: about a
	// tenth of a second. It is counted from what the batch says, so that a replay on
	// a slower machine comes to the same verdict.
	MaxCost = 1_200_000
	// MaxReplicas bounds a share's denominator, which settlement keeps in 16 bits.
	MaxReplicas = 1<<16 - 1

	// MaxObserved is into how many parts a slot is cut by clock steps and failures.
	MaxObserved = 64
	// MaxEvents is how many events a slot has.
	MaxEvents = 1 << 12
	// MaxGaps is how many lost ranges of sequence numbers one batch announces; the
	// next batch announces more.
	MaxGaps = 1 << 12
	// MaxReasons is how many reasons a boot's counters tell apart.
	MaxReasons = 64
	// MaxMetrics is how many other metrics a GPU or a leaf has.
	MaxMetrics = 256

	// MaxWatts is beyond any board. More power is a broken reading: absent.
	MaxWatts = 3000
	// EnergyToleranceMS lengthens the time an energy delta covers when it is held
	// against MaxWatts: a counter is read up to one period of sampling (1 s) late at
	// either end.
	EnergyToleranceMS = 2000
	// MaxEnergySpanMS is 397 days, longer than a counter runs without a reader. The
	// energy of a longer span is absent.
	MaxEnergySpanMS = 1 << 35
)

// limitError is a batch that contradicts hardware or costs too much.
type limitError struct{ reason, text string }

func (e *limitError) Error() string { return e.text }

func over(format string, args ...any) error {
	return &limitError{"limits", fmt.Sprintf(format, args...)}
}

// checker holds one batch to the limits, and counts what it will cost.
type checker struct {
	slotMS int64
	parts  int // into which the slot is cut
	cost   int
	text   int // bytes of owner facts
}

func (c *checker) spend(cost int) error {
	if c.cost += cost; c.cost > MaxCost {
		text := fmt.Sprintf("what the batch says so far costs %d to settle, more than %d", c.cost, MaxCost)
		return &limitError{"too_costly", text}
	}
	return nil
}

// name refuses what is not its own Name: rewritten, it would name other capacity
// than the sender's.
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
		return over("%s %s: not in NFC, or with characters or ends that can't be seen", field, shown(s))
	}
	return nil
}

// owner takes facts of any content: Name makes names of them.
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

// fewFacts is how many bytes of owner facts cost too little to look at them.
const fewFacts = 128 << 10

// ownersText counts what Name has to do.
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

// shown is the beginning of a text, in quotes.
func shown(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// count is one number of a batch, and its limit.
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

// withinLimits holds what a batch says beside its GPUs, and how many things it
// lists, to the limits.
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

// checkSequence holds the numbers that checks add and compare to their ranges.
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

// crowds holds how many leaves of a GPU exist, and how many holds of a leaf there
// are at one instant, to the limits, and counts what sharing them out costs.
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
			return over("leaf %s: %d holds at one instant, more than %d", leaf, most, MaxHolders)
		}
		cost += leafCost(len(at.from), most, c.parts)
	}
	return c.spend(cost)
}

// fewHolds is up to where the holds of a GPU need no closer look.
const fewHolds = 32

// leafCost is what sharing out a leaf costs: each hold is sorted into each part,
// meets the others that are there, and is summed over as many denominators. A
// unit is about 50 ns, what one byte costs that Name has to look at.
func leafCost(holds, atOnce, parts int) int { return holds * parts * (atOnce + 8) }

// crowd is spans of time within the slot, in ms.
type crowd struct{ from, to []int64 }

func (c *crowd) add(from, to *int64, slotMS int64) {
	if lo, hi := Span(from, to, slotMS); lo < hi {
		c.from, c.to = append(c.from, lo), append(c.to, hi)
	}
}

// most is how many spans there are at one instant.
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

// Energy is how far a GPU's energy counter moved, in mJ, and the ms that covers.
// ok is false where nothing was read, and where it is more than MaxWatts could
// move it: then it is absent (R16), and nobody's.
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
