package e2e

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

const (
	tortureCluster = "torture"
	tortureNodes   = 12
	tortureSlot    = 30 * time.Second // as long as a gap may be (R10): one missing slot is inferred over
	shuffledWithin = 10 * time.Minute
	lateWithin     = 72 * time.Hour
	latePercent    = 1
	mostCopies     = 3
	sharedGPUs     = 6 // of eight: seven instances each, two owners on every one
)

// tortureStart is an hour before a month, a week and a day begin, as partitions do.
var tortureStart = time.Date(2026, 5, 31, 23, 0, 0, 0, time.UTC)

// delivery is one copy of a batch on its way to the broker.
type delivery struct {
	due   time.Time // in event time
	order uint64    // among those due at once
	node  string
	value []byte
}

// stream makes batches out of a seed: the same seed, the same batches, and the
// same copies in the same order. It is the oracle too, since Slot gives each
// batch once and in order.
type stream struct {
	seed  uint64
	slots int
	slot  int
	seqs  map[string]uint64 // the next one, by collector
}

func newStream(seed uint64, slots int) *stream {
	return &stream{seed: seed, slots: slots, seqs: map[string]uint64{}}
}

// dice throws a number for a purpose: nothing depends on what else was thrown.
func (s *stream) dice(sides uint64, what string, numbers ...int) uint64 {
	h := fnv.New64a()
	buf := binary.LittleEndian.AppendUint64([]byte(what), s.seed)
	for _, n := range numbers {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(n))
	}
	_, _ = h.Write(buf) // can't fail
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x % sides
}

func (s *stream) percent(limit uint64, what string, numbers ...int) bool {
	return s.dice(100, what, numbers...) < limit
}

// next gives the batches of the next slot; none left: false.
func (s *stream) next() (batches []*wire.Batch, more bool) {
	if s.slot == s.slots {
		return nil, false
	}
	for node := range tortureNodes {
		n := s.batchesOf(node, s.slot)
		if n > 1 {
			batches = append(batches, s.superseded(node))
		}
		if n > 0 {
			batches = append(batches, s.batch(node))
		}
	}
	s.slot++
	return batches, true
}

// batchesOf is how many batches a node has of a slot: none where it was silent,
// two where one supersedes another.
func (s *stream) batchesOf(node, slot int) int {
	switch n := s.dice(100, "batches", node, slot); {
	case n < 2:
		return 0
	case n < 5:
		return 2
	default:
		return 1
	}
}

// collected gives a batch its place in a collector's boot.
func (s *stream) collected(b *wire.Batch, collector string, bootMS int64) *wire.Batch {
	seq := s.seqs[collector]
	s.seqs[collector]++
	b.Collector, b.BootMs, b.Seq = collector, bootMS, seq
	b.Counters = &wire.Counters{Sampled: seq + 1, Spooled: seq + 1}
	return b
}

// superseded is what a second collector of the node knew of the slot: less, and
// of other owners.
func (s *stream) superseded(node int) *wire.Batch {
	b := s.bare(node)
	b.Gpus = b.Gpus[:1+s.dice(8, "spare gpus", node, s.slot)]
	for _, g := range b.Gpus {
		for _, h := range g.Holds {
			h.Owner.Namespace = "superseded"
		}
	}
	if s.percent(50, "spare failed", node, s.slot) {
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	} else {
		b.Observed = []*wire.Interval{{FromMs: 1000, ToMs: 9000}}
	}
	return s.collected(b, fmt.Sprintf("spare-%02d", node), 1000)
}

func (s *stream) batch(node int) *wire.Batch {
	b := s.bare(node)
	switch s.dice(40, "trouble", node, s.slot) {
	case 0:
		b.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	case 1:
		b.Observed = []*wire.Interval{{FromMs: 0, ToMs: 20_000}}
	case 2:
		b.Observed = []*wire.Interval{{FromMs: 0, ToMs: 7_001}, {FromMs: 12_345, ToMs: 30_000}}
	case 3:
		b.Gpus = b.Gpus[:7]
		b.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL
	case 4:
		b.Gpus = b.Gpus[:7] // complete: the eighth is lost
	case 5:
		b.Events = []*wire.Event{{AtMs: 5000, Gpu: b.Gpus[0].Uuid, Kind: "xid", Code: 31}}
	}
	return s.collected(b, fmt.Sprintf("main-%02d", node), 2000)
}

// bare is the slot of a node, well observed.
func (s *stream) bare(node int) *wire.Batch {
	start := tortureStart.Add(time.Duration(s.slot) * tortureSlot).UnixMilli()
	b := &wire.Batch{
		Format: wire.Format, Cluster: tortureCluster, Node: fmt.Sprintf("n%02d", node),
		SlotStartMs: start, SlotMs: tortureSlot.Milliseconds(), Origin: wire.Origin_ORIGIN_SIMULATED,
		WindowFromMs: tortureStart.UnixMilli(),
		WindowToMs:   tortureStart.Add(time.Duration(s.slots) * tortureSlot).UnixMilli(),
	}
	for gpu := range sharedGPUs {
		b.Gpus = append(b.Gpus, s.shared(node, gpu))
	}
	b.Gpus = append(b.Gpus, s.partitioned(node, sharedGPUs), s.whole(node, sharedGPUs+1))
	return b
}

func (s *stream) gpu(node, gpu int) *wire.Gpu {
	watts, idle := float64(60+s.dice(600, "watts", node, gpu, s.slot)), 70.0
	energy := int64(watts * tortureSlot.Seconds() * 1000)
	return &wire.Gpu{
		Uuid: fmt.Sprintf("GPU-%02d-%d", node, gpu), Model: "NVIDIA H100 80GB HBM3", Slices: 7, Index: uint32(gpu),
		PowerWatts: &watts, IdleWatts: &idle, EnergyMj: &energy,
	}
}

// owner changes every half hour: holders of two sides of a gap differ at times.
func (s *stream) owner(node, gpu, leaf, which int) *wire.Owner {
	shift := s.slot / 60
	if s.percent(70, "long job", node, gpu, leaf) {
		shift = 0
	}
	team := s.dice(9, "team", node, gpu, leaf, which, shift)
	return &wire.Owner{
		Namespace: fmt.Sprintf("team-%d", team),
		Pod:       fmt.Sprintf("job-%d-%d-%d-%d", gpu, leaf, which, shift),
	}
}

func (s *stream) instance(node, gpu, gi int, slices uint32, profile string) *wire.Leaf {
	id := uint32(gi)
	active := float64(s.dice(100, "active", node, gpu, gi, s.slot)) / 100
	return &wire.Leaf{
		Id: fmt.Sprintf("gi%d", gi), Slices: slices, Profile: profile, Gi: &id, SmActive: &active,
		MigUuid: fmt.Sprintf("MIG-%02d-%d-%d", node, gpu, gi),
	}
}

// shared is seven instances with two owners each, one of whom may come or go.
func (s *stream) shared(node, gpu int) *wire.Gpu {
	g := s.gpu(node, gpu)
	g.Mig = true
	for gi := range 7 {
		l := s.instance(node, gpu, gi, 1, "1g.10gb")
		if gpu%2 == 0 {
			l.Replicas = 3
		}
		g.Leaves = append(g.Leaves, l)
		for which := range 2 {
			h := &wire.Hold{Leaf: l.Id, Owner: s.owner(node, gpu, gi, which)}
			if which == 1 && s.percent(10, "goes", node, gpu, gi, s.slot) {
				to := int64(1 + s.dice(29_999, "goes at", node, gpu, gi, s.slot))
				h.ToMs = &to
			}
			g.Holds = append(g.Holds, h)
		}
	}
	return g
}

// partitioned is two instances of three slices, one of them free at times; the
// seventh slice is stranded.
func (s *stream) partitioned(node, gpu int) *wire.Gpu {
	g := s.gpu(node, gpu)
	g.Mig = true
	for gi := range 2 {
		l := s.instance(node, gpu, gi, 3, "3g.40gb")
		l.Unhealthy = s.percent(2, "instance", node, gpu, gi, s.slot)
		g.Leaves = append(g.Leaves, l)
		if gi == 0 || s.percent(80, "held", node, gpu, s.slot/7) {
			g.Holds = append(g.Holds, &wire.Hold{Leaf: l.Id, Owner: s.owner(node, gpu, gi, 0)})
		}
	}
	return g
}

// whole is a GPU with up to three owners, lost or flagged at times.
func (s *stream) whole(node, gpu int) *wire.Gpu {
	g := s.gpu(node, gpu)
	if s.percent(1, "lost", node, s.slot/20) {
		g.Lost, g.EnergyMj, g.PowerWatts = true, nil, nil
		return g
	}
	g.Unhealthy = s.percent(2, "flagged", node, s.slot/20)
	active := float64(s.dice(100, "active", node, gpu, s.slot)) / 100
	g.Leaves = []*wire.Leaf{{Id: "gpu", Slices: 7, SmActive: &active}}
	for which := range s.dice(4, "owners", node, gpu, s.slot/90) {
		g.Holds = append(g.Holds, &wire.Hold{Leaf: "gpu", Owner: s.owner(node, gpu, 0, int(which))})
	}
	return g
}

// encoded gives the batches of the next slot as messages' values.
func (s *stream) encoded() (values [][]byte, more bool, err error) {
	batches, more := s.next()
	for _, b := range batches {
		value, err := wire.Encode(b)
		if err != nil {
			return nil, false, err
		}
		values = append(values, value)
	}
	return values, more, nil
}

// deliveries sends every batch one to three times, shuffled within ten minutes,
// some of them up to three days late.
type deliveries struct {
	*stream
	onTheWay  queue
	delivered uint64
	batches   uint64
}

// slotDue encodes the next slot's batches and returns what is due by then, in
// order. After the last slot everything is.
func (d *deliveries) slotDue() (due []delivery, more bool, err error) {
	end := tortureStart.Add(time.Duration(d.slot+1) * tortureSlot)
	batches, more := d.next()
	for _, b := range batches {
		d.batches++
		value, err := wire.Encode(b)
		if err != nil {
			return nil, false, err
		}
		for copies := 1 + d.dice(mostCopies, "copies", int(d.batches)); copies > 0; copies-- {
			heap.Push(&d.onTheWay, delivery{
				due: end.Add(d.delay(int(copies))), order: d.dice(1<<62, "order", int(d.batches), int(copies)), node: b.Node,
				value: value,
			})
		}
	}
	for len(d.onTheWay) > 0 && (!more || !d.onTheWay[0].due.After(end)) {
		due = append(due, heap.Pop(&d.onTheWay).(delivery))
	}
	d.delivered += uint64(len(due))
	return due, more, nil
}

func (d *deliveries) delay(number int) time.Duration {
	most := shuffledWithin
	if d.percent(latePercent, "late", int(d.batches), number) {
		most = lateWithin
	}
	return time.Duration(d.dice(uint64(most), "delay", int(d.batches), number))
}

// messages counts what slotDue will return in all, and of how many batches.
func (d *deliveries) messages() (messages, batches uint64) {
	for slot := range d.slots {
		for node := range tortureNodes {
			for range d.batchesOf(node, slot) {
				batches++
				messages += 1 + d.dice(mostCopies, "copies", int(batches))
			}
		}
	}
	return messages, batches
}

// queue is a heap, the next one due first.
type queue []delivery

func (q queue) Len() int { return len(q) }

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q queue) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].order < q[j].order
}

func (q *queue) Push(x any) { *q = append(*q, x.(delivery)) }

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
