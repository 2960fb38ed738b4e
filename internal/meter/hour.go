package meter

import (
	"fmt"
	"slices"
	"sort"
)

// NodeSlot is the winning batch of one (node, slot), without its GPUs.
type NodeSlot struct {
	StartMS       int64
	Observed      []int64 // from, to, from, to, … in ms of the slot; empty: all of it
	Nothing       bool    // nothing of the slot was seen
	Complete      bool    // a GPU that isn't listed is lost (R2)
	AttributionOK bool
	Fill          bool // of allocation records: nobody saw the node (R18)
}

// bounds are the first and the last instant seen, Unix ms.
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

// Record is what the winning batch of a (node, slot) says of one GPU.
type Record struct {
	StartMS int64
	Slices  int
	Kind    Kind
	Model   string
	Rows    []Row
}

// HourInput is all that one hour of a cluster depends on: the winning batches
// from GapMaxMS before it to GapMaxMS after it (R10), what they say of each
// GPU, ascending by slot, when people closed its inventory, and the watermark.
type HourInput struct {
	StartMS     int64
	WatermarkMS int64
	SlotMS      int64
	Nodes       map[string][]NodeSlot
	GPUs        map[string]map[string][]Record // GPU, then node
	Closings    map[string][]int64             // by GPU: starts of slots, ascending, Unix ms (R2)
	LeafSlices  func(leaf uint64) int
	OwnerID     func(owner uint64) string
	// Trace, unless nil, gets every piece of every GPU-hour, in no order.
	Trace func(gpu string, p Part)
}

// Part is a piece of a GPU-hour and its reason. The parts of a GPU-hour sum to it:
// a bucket's slice-ms, an owner's work and energy (owner 0: the platform's), and
// what is unattributed. Inferred time is Unproven for WhyInferred. A part without
// time carries energy only.
type Part struct {
	Node    string // that has the GPU; empty: not known
	StartMS int64  // of the slot, Unix ms
	Row
	Gap GapWhy // of unobserved time: why nothing was inferred
}

// OwnerUse is the time of one owner on one leaf, in slice-ms.
type OwnerUse struct {
	Leaf, Owner            uint64
	Active, Idle, Unproven int64
	Inferred               int64 // of Unproven (R10)
	Work, EnergyMJ         int64
}

// GPUHour is the ledger's atom: one GPU in one hour. The buckets sum to
// Slices × PresentMS.
type GPUHour struct {
	GPU, Node, Model                      string
	Slices                                int
	Kind                                  Kind
	PresentMS                             int64
	Free, Stranded, Unhealthy, Unobserved int64
	UnobservedAttribution                 int64 // of Unobserved: owners could not be read
	PlatformEnergyMJ, UnattributedMJ      int64
	Owners                                []OwnerUse
}

// UnbalancedError is a GPU-hour with more time in its buckets than it has: a bug
// or damaged raw, never to be published.
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

// HourResult is a cluster's hour.
type HourResult struct {
	UntilMS   int64 // the part of the hour before the watermark
	GPUs      []GPUHour
	Sightings []Sighting
	Findings  []string
}

// Hour computes one hour of a cluster and moves the inventory to its end (R2,
// R3, R9, R10, R14). An error means that the buckets don't sum: a bug or
// damaged raw, never to be published.
func Hour(in HourInput, inv *Inventory) (HourResult, error) {
	out := HourResult{UntilMS: min(max(in.WatermarkMS-in.StartMS, 0), HourMS)}
	fills := in.takeFills()
	for gpu := range in.GPUs {
		inv.get(gpu)
	}
	for _, gpu := range sortedKeys(inv.gpus) {
		h := gpuHour{
			in: &in, gpu: gpu, known: inv.gpus[gpu], endMS: in.StartMS + out.UntilMS, fills: fills[gpu],
			closings: in.Closings[gpu],
			tracer:   tracer{on: in.Trace != nil},
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
		if inv.gpus[gpu].lastMS+RetireAfterMS <= in.StartMS {
			delete(inv.gpus, gpu)
		}
	}
	return out, nil
}

// gpuHour works on one GPU of one hour. cells are the slots around the hour in
// which somebody knows something of the GPU, ascending.
type gpuHour struct {
	in        *HourInput
	gpu       string
	known     *known
	endMS     int64 // of what is counted of the hour
	cells     []cell
	present   []span // Unix ms
	out       GPUHour
	before    capacity // of the hour before, as far as it is known
	counted   int64
	sightings []Sighting
	sighted   map[string]int // of sightings, by node
	findings  []string
	inferred  []inference
	inferAt   map[slotLeaf]int    // of inferred
	fills     map[string][]Record // by node
	closings  []int64             // of the GPU
	places    []place
	lines     map[lineKey]int // of out.Owners, where there are many
	tracer    tracer
}

// cell is one slot: the node that has the GPU, its winning batch, and what it
// says of the GPU; record is nil where the batch doesn't list it. life counts the
// closings before it.
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
		return h.out, &UnbalancedError{HourMS: h.in.StartMS, GPU: h.gpu, Slices: h.out.Slices, PresentMS: h.out.PresentMS,
			ExcessSliceMS: -h.out.Unobserved}
	}
	h.traceUnobserved()
	if h.known.node != "" { // else it was closed, and not listed since
		h.out.Node, h.out.Model = h.known.node, h.known.model
	}
	sort.Slice(h.out.Owners, func(i, j int) bool {
		a, b := &h.out.Owners[i], &h.out.Owners[j]
		return a.Leaf < b.Leaf || (a.Leaf == b.Leaf && a.Owner < b.Owner)
	})
	return h.out, nil
}

// assign walks all slots around the hour, chooses the node that has the GPU in
// each, and derives where the GPU is present.
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
		for ; life < len(h.closings) && h.closings[life] <= start; life++ {
			past.close(h.closings[life])
			h.closed(k, h.closings[life])
		}
		listers := h.listers(start)
		node := k.node
		switch {
		case start < h.in.StartMS: // the inventory has been there: only who had the GPU is asked again
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

// slotTimes are the slots around the hour in which any node that lists the GPU
// there has a winning batch, ascending.
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

// nodeSlot finds the node's winning batch; at remembers how far the walk is.
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

// count books one slot of the hour.
func (h *gpuHour) count(c *cell) {
	all := int64(h.out.Slices) * c.slot.observedMS(h.in.SlotMS)
	if c.record == nil {
		if c.slot.Complete { // missing from a complete enumeration: lost (R2)
			h.book(c, Row{Bucket: Unhealthy, Why: WhyNotListed, SliceMS: all})
		}
		return
	}
	switch {
	case c.lost():
		h.book(c, Row{Bucket: Unhealthy, Why: WhyLost, SliceMS: all})
		h.energyOnly(c, WhyLost)
	case h.excess(c):
		if c.record.Slices > h.out.Slices || c.record.Kind != h.out.Kind {
			h.findings = append(h.findings, fmt.Sprintf("GPU %s tells %d slices in the slot at %d, its hour began with %d",
				h.gpu, c.record.Slices, c.slot.StartMS, h.out.Slices))
		}
		h.energyOnly(c, WhyExcess)
	default:
		if fewer := int64(h.out.Slices-c.record.Slices) * c.slot.observedMS(h.in.SlotMS); fewer > 0 &&
			h.out.Kind != OpenPool {
			h.book(c, Row{Bucket: Stranded, Why: WhyFewer, SliceMS: fewer})
		}
		for i := range c.record.Rows {
			h.bookStored(c, &c.record.Rows[i])
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
