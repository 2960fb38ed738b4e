package meter

import (
	"fmt"
	"slices"
	"sort"
)

// NodeSlot is the winning batch of one (node, slot), without its GPUs.
type NodeSlot struct {
	StartMS       int64
	Observed      []int64 // [from, to) pairs in ms of the slot; empty: the whole slot
	Nothing       bool    // no part of the slot was observed
	Complete      bool    // the batch lists all GPUs of the node: one that is missing is lost (R2)
	AttributionOK bool
	Fill          bool // made from allocation records: nobody observed the node (R18)
}

// bounds returns the first and the last observed instant, Unix ms.
func (n *NodeSlot) bounds(slotMS int64) (first, last int64) {
	if len(n.Observed) == 0 {
		return n.StartMS, n.StartMS + slotMS
	}
	return n.StartMS + n.Observed[0], n.StartMS + n.Observed[len(n.Observed)-1]
}

func (n *NodeSlot) observedMS(slotMS int64) int64 {
	if n.Nothing {
		return 0
	}
	if len(n.Observed) == 0 {
		return slotMS
	}
	var sum int64
	for i := 0; i+1 < len(n.Observed); i += 2 {
		sum += n.Observed[i+1] - n.Observed[i]
	}
	return sum
}

// Record is the part of the winning batch of a (node, slot) that concerns one GPU.
type Record struct {
	StartMS int64
	Slices  int
	Kind    Kind
	Model   string
	Rows    []Row
}

// HourInput is all that one hour of a cluster depends on: the winning batches from
// GapMaxMS before it to GapMaxMS after it (R10), their records of each GPU in
// ascending order of slot, the retirements, and the watermark.
type HourInput struct {
	StartMS     int64
	WatermarkMS int64
	SlotMS      int64
	Nodes       map[string][]NodeSlot
	GPUs        map[string]map[string][]Record // GPU, then node
	Retirements map[string][]int64             // retirements by GPU: starts of slots, ascending, Unix ms (R2)
	LeafSlices  func(leaf uint64) int
	OwnerID     func(owner uint64) string
	// Trace, unless nil, is called with every piece of every GPU-hour, in no
	// particular order.
	Trace func(gpu string, p Part)
}

// Part is a piece of a GPU-hour with its reason. The parts of a GPU-hour sum to it:
// each bucket's slice-ms, each owner's work and energy (owner 0: the platform), and
// the unattributed energy. Inferred time is Unproven with WhyInferred. A part without
// time carries only energy.
type Part struct {
	Node    string // the node that has the GPU; empty: unknown
	StartMS int64  // of the slot, Unix ms
	Row
	Gap GapWhy // for unobserved time: why it was not inferred
}

// OwnerUse is the use of one leaf by one owner in an hour; times in slice-ms.
type OwnerUse struct {
	Leaf, Owner            uint64
	Active, Idle, Unproven int64
	Parked                 int64 // the part of Idle with an open CUDA context
	Inferred               int64 // the inferred part of Unproven (R10)
	Work, EnergyMJ         int64
	Rest                   []RestRun // ascending
}

// GPUHour is one row of the ledger: one GPU in one hour. The seven buckets sum to
// Slices × PresentMS.
type GPUHour struct {
	GPU, Node, Model                      string
	Slices                                int
	Kind                                  Kind
	PresentMS                             int64
	Free, Stranded, Unhealthy, Unobserved int64
	UnobservedAttribution                 int64 // the part of Unobserved for which a batch exists but owners are unknown
	PlatformEnergyMJ, UnattributedMJ      int64
	Owners                                []OwnerUse
}

// UnbalancedError reports a GPU-hour whose buckets hold more time than it has. The
// cause is a bug or damaged raw rows, so the hour must not be published.
type UnbalancedError struct {
	HourMS                   int64
	GPU                      string
	Slices                   int
	PresentMS, ExcessSliceMS int64
}

func (e *UnbalancedError) Error() string {
	return fmt.Sprintf("compute hour %d of GPU %s: buckets exceed %d slices × %d ms by %d", e.HourMS, e.GPU, e.Slices,
		e.PresentMS, e.ExcessSliceMS)
}

// HourResult is one hour of a cluster.
type HourResult struct {
	UntilMS   int64 // end of the counted part of the hour: its end, or the watermark
	GPUs      []GPUHour
	Sightings []Sighting
	Findings  []string
}

// Hour computes one hour of a cluster and moves the inventory to the hour's end (R2,
// R3, R9, R10, R14). An error means that the buckets of a GPU don't sum to its
// capacity: a bug or damaged raw rows. Such an hour must not be published.
func Hour(in HourInput, inv *Inventory) (HourResult, error) {
	out := HourResult{UntilMS: min(max(in.WatermarkMS-in.StartMS, 0), HourMS)}
	fills := in.takeFills()
	for gpu := range in.GPUs {
		inv.get(gpu)
	}
	for _, gpu := range sortedKeys(inv.gpus) {
		h := gpuHour{
			in: &in, gpu: gpu, known: inv.gpus[gpu], endMS: in.StartMS + out.UntilMS, fills: fills[gpu],
			retirements: in.Retirements[gpu],
			tracer:      tracer{on: in.Trace != nil},
		}
		row, err := h.compute()
		if err != nil {
			return out, err
		}
		if row.PresentMS > 0 {
			out.GPUs = append(out.GPUs, row)
		}
		out.Sightings = append(out.Sightings, h.sightings...)
		out.Findings = append(out.Findings, h.findings...)
		if inv.gpus[gpu].lastMS+RetireAfterMS <= in.StartMS { // silent for too long: it leaves the inventory
			delete(inv.gpus, gpu)
		}
	}
	return out, nil
}

// gpuHour computes one GPU of one hour. cells are the slots around the hour for which
// a node that lists the GPU has a batch, ascending.
type gpuHour struct {
	in          *HourInput
	gpu         string
	known       *known
	endMS       int64 // end of the counted part of the hour
	cells       []cell
	present     []span // Unix ms
	out         GPUHour
	before      capacity // the capacity in the hour before, if known
	counted     int64
	sightings   []Sighting
	sighted     map[string]int // index into sightings, by node
	findings    []string
	inferred    []inference
	inferAt     map[slotLeaf]int    // index into inferred
	fills       map[string][]Record // by node
	retirements []int64             // retirements of the GPU
	places      []place
	lines       map[lineKey]int // index into out.Owners, used where there are many
	tracer      tracer
}

// cell is one slot: the node that has the GPU, that node's winning batch, and the
// batch's record of the GPU, which is nil if the batch doesn't list it. life is the
// number of retirements before the slot.
type cell struct {
	node   string
	life   int
	slot   *NodeSlot
	record *Record
}

func (h *gpuHour) compute() (GPUHour, error) {
	h.known.close(h.closedBefore(h.in.StartMS))
	h.out.GPU, h.out.Slices, h.out.Kind = h.gpu, h.known.slices, h.known.kind
	h.assign()
	h.capacity()
	for i := range h.cells {
		if c := &h.cells[i]; h.presentAt(c.slot.StartMS) {
			h.count(c)
		}
	}
	h.infer()
	h.fill()
	h.out.PresentMS = spanLength(h.present)
	h.out.Unobserved = int64(h.out.Slices)*h.out.PresentMS - h.counted
	if h.out.Unobserved < 0 {
		return h.out, &UnbalancedError{
			HourMS: h.in.StartMS, GPU: h.gpu, Slices: h.out.Slices, PresentMS: h.out.PresentMS,
			ExcessSliceMS: -h.out.Unobserved,
		}
	}
	for i := range h.out.Owners {
		h.releases(&h.out.Owners[i])
		h.out.Owners[i].trimRest(h.endMS - h.in.StartMS)
	}
	h.traceUnobserved()
	if h.known.node != "" { // otherwise it was retired, and not listed again
		h.out.Node, h.out.Model = h.known.node, h.known.model
	}
	sort.Slice(h.out.Owners, func(i, j int) bool {
		a, b := &h.out.Owners[i], &h.out.Owners[j]
		return a.Leaf < b.Leaf || (a.Leaf == b.Leaf && a.Owner < b.Owner)
	})
	return h.out, nil
}

// assign goes through all slots around the hour, decides which node has the GPU in
// each, and derives when the GPU is present.
func (h *gpuHour) assign() {
	slots := h.slotTimes()
	if h.known.node != "" {
		h.cover(h.in.StartMS, h.known.lastMS+h.known.kind.RetireAfterMS())
	}
	k, beyond := h.known, false
	h.places = append(h.places, place{h.in.StartMS, k.node})
	past := h.known.before(h.in.StartMS, slots)
	at, life := map[string]int{}, 0
	for _, start := range slots {
		if start >= h.in.StartMS+HourMS && !beyond {
			k, beyond = h.known.clone(), true
		}
		for ; life < len(h.retirements) && h.retirements[life] <= start; life++ {
			past.close(h.retirements[life])
			h.closed(k, h.retirements[life])
		}
		listers := h.listers(start)
		node := k.node
		switch {
		case start < h.in.StartMS: // before the hour, whose inventory is known: only which node has the GPU is derived again
			if len(listers) > 0 {
				past.list(listers, start, start+h.in.SlotMS)
			}
			node = past.node
		case len(listers) > 0:
			if !beyond {
				h.contested(listers, start)
			}
			node = k.list(listers, start, start+h.in.SlotMS)
			if !beyond {
				h.known.kind = h.record(node, start).Kind
				h.cover(start, start+h.in.SlotMS+h.known.kind.RetireAfterMS())
				h.sight(listers, start)
				h.places = append(h.places, place{start, node})
			}
		}
		if slot := h.nodeSlot(at, node, start); slot != nil {
			h.cells = append(h.cells, cell{node: node, life: life, slot: slot, record: h.record(node, start)})
		}
	}
}

// slotTimes are the slots around the hour for which any node that lists the GPU has a
// winning batch, ascending.
func (h *gpuHour) slotTimes() []int64 {
	var times []int64
	one := h.in.GPUs[h.gpu]
	for node := range one {
		times = appendTimes(times, h.in.Nodes[node])
	}
	if _, ok := one[h.known.node]; !ok {
		times = appendTimes(times, h.in.Nodes[h.known.node])
	}
	slices.Sort(times)
	return slices.Compact(times)
}

func appendTimes(times []int64, slots []NodeSlot) []int64 {
	for i := range slots {
		times = append(times, slots[i].StartMS)
	}
	return times
}

func (h *gpuHour) listers(start int64) []string {
	var nodes []string
	for node := range h.in.GPUs[h.gpu] {
		if h.record(node, start) != nil {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (h *gpuHour) record(node string, start int64) *Record {
	records := h.in.GPUs[h.gpu][node]
	i := sort.Search(len(records), func(i int) bool { return records[i].StartMS >= start })
	if i < len(records) && records[i].StartMS == start {
		return &records[i]
	}
	return nil
}

// nodeSlot finds the node's winning batch of a slot. at keeps the search position by
// node.
func (h *gpuHour) nodeSlot(at map[string]int, node string, start int64) *NodeSlot {
	slots := h.in.Nodes[node]
	i := at[node]
	for i < len(slots) && slots[i].StartMS < start {
		i++
	}
	at[node] = i
	if i < len(slots) && slots[i].StartMS == start {
		return &slots[i]
	}
	return nil
}

// count adds one slot of the hour.
func (h *gpuHour) count(c *cell) {
	all := int64(h.out.Slices) * c.slot.observedMS(h.in.SlotMS)
	if c.record == nil {
		if c.slot.Complete { // missing from a complete list of the node's GPUs: lost (R2)
			h.addRow(c, Row{Bucket: Unhealthy, Why: WhyNotListed, SliceMS: all})
		}
		return
	}
	switch {
	case c.lost():
		h.addRow(c, Row{Bucket: Unhealthy, Why: WhyLost, SliceMS: all})
		h.energyOnly(c, WhyLost)
	case h.excess(c):
		if c.record.Slices > h.out.Slices || c.record.Kind != h.out.Kind {
			h.findings = append(h.findings, fmt.Sprintf("GPU %s has %d slices in the slot at %d, its hour began with %d",
				h.gpu, c.record.Slices, c.slot.StartMS, h.out.Slices))
		}
		h.energyOnly(c, WhyExcess)
	default:
		if fewer := int64(h.out.Slices-c.record.Slices) * c.slot.observedMS(h.in.SlotMS); fewer > 0 &&
			h.out.Kind != OpenPool {
			h.addRow(c, Row{Bucket: Stranded, Why: WhyFewer, SliceMS: fewer})
		}
		for i := range c.record.Rows {
			h.addStored(c, &c.record.Rows[i])
		}
	}
}

func (c *cell) lost() bool { return c.has(WhyLost) }

func (c *cell) has(why Why) bool {
	for i := range c.record.Rows {
		if c.record.Rows[i].Why == why {
			return true
		}
	}
	return false
}
