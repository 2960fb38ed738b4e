package hostiletest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/wire"
)

// Generator makes messages. It is not safe for concurrent use.
type Generator struct {
	random *rand.Rand
	now    time.Time
	names  []string
	left   int // elements that a message may still have
	room   int // bytes that its texts may still have
	space  int // bytes that may still be written: a list may hold an element, and that its own, thousands of times
	bombs  [][]byte
}

// New makes a generator of messages that are sent now. They contain the names of others
// and names that look like these.
func New(seed uint64, now time.Time, others ...string) *Generator {
	g := &Generator{random: rand.New(rand.NewPCG(seed, 1)), now: now, names: []string{
		"", "hostile", "n", "gpu", "gi0", "\x00", "\n", "=1+1", "\u202e", "e\u0301", "\u00e9", "../../x", "' OR 1=1 --",
		"{{.}}", "%s%n",
		strings.Repeat("a", wire.MaxNameBytes), strings.Repeat("a", wire.MaxNameBytes+1), strings.Repeat("\u0301", 90),
		strings.Repeat("e\u0301\u0323", 80), strings.Repeat("b", wire.MaxTextBytes),
		strings.Repeat("c", wire.MaxTextBytes+1), strings.Repeat("d", 1<<17),
	}}
	for _, name := range others {
		g.names = append(g.names, name, name+"\u200b", name+" ", strings.ToUpper(name), "\ufeff"+name,
			strings.ReplaceAll(name, "a", "\u0430"), name+"\x00")
	}
	return g
}

// numbers are values at which integers may overflow.
var numbers = []int64{
	0, 1, 2, -1, 7, 8, 64, 65, 1000, 10_000, 30_000, 3_600_000, 3_600_001, math.MaxInt32, math.MinInt32, math.MaxUint32,
	math.MaxInt64, math.MinInt64,
	wire.MinTimeMS, wire.MinTimeMS - 1, wire.MaxTimeMS, wire.MaxTimeMS + 1, wire.MaxSeq, wire.MaxSeq + 1,
	wire.MaxReplicas, wire.MaxReplicas + 1,
	wire.MaxSlices, wire.MaxSlices + 1, wire.MaxPoolSlices, wire.MaxPoolSlices + 1, wire.MaxEnergySpanMS,
	wire.MaxEnergySpanMS + 1,
}

// counts are the possible numbers of elements of a list.
var counts = []int{0, 1, 2, 3, 7, 14, 64, 65, 128, 129, 256, 257, 1024, 1025, wire.MaxHolds + 1}

var fractions = []float64{
	0, math.Copysign(0, -1), 0.5, 1, -1, 100, 101, wire.MaxWatts, wire.MaxWatts + 1, 1e308,
	-1e308, 5e-324, math.NaN(), math.Inf(1), math.Inf(-1),
}

func pick[T any](g *Generator, from []T) T { return from[g.random.IntN(len(from))] }

func (g *Generator) percent(n int) bool { return g.random.IntN(100) < n }

func (g *Generator) number() int64 {
	switch g.random.IntN(4) {
	case 0:
		return int64(g.random.Uint64()) //nolint:gosec // any number
	case 1:
		return g.now.UnixMilli() - g.now.UnixMilli()%10_000 + 10_000*int64(g.random.IntN(20)-15)
	}
	return pick(g, numbers)
}

func (g *Generator) fraction() float64 {
	if g.percent(30) {
		return math.Float64frombits(g.random.Uint64())
	}
	return pick(g, fractions)
}

func (g *Generator) text() string {
	switch n := g.random.IntN(1000); {
	case n < 5: // mostly invalid UTF-8, which makes the whole message invalid
		return string(g.noise(g.random.IntN(100)))
	case n < 50:
		return strings.ToValidUTF8(string(g.noise(g.random.IntN(1500))), "?")
	}
	name := pick(g, g.names)
	if len(name) > g.room {
		return ""
	}
	g.room -= len(name)
	return name
}

// few is a number of elements to add, within the limit of a message.
func (g *Generator) few() int {
	from := counts
	if g.percent(80) {
		from = counts[:6]
	}
	n := min(pick(g, from), g.left)
	g.left -= n
	return n
}

func (g *Generator) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.random.Uint32())
	}
	return b
}

// size is a size that is mostly small, at most what the topic accepts.
func (g *Generator) size() int {
	switch n := g.random.IntN(1000); {
	case n < 900:
		return g.random.IntN(1000)
	case n < 997:
		return g.random.IntN(100_000)
	default:
		return g.random.IntN(9 << 20)
	}
}

// Value makes the value of a message for the samples topic.
func (g *Generator) Value() []byte {
	g.left, g.room, g.space = 20_000, 4<<20, 8<<20
	var b *wire.Batch
	switch n := g.random.IntN(100); {
	case n < 5:
		return g.noise(g.size())
	case n < 20:
		b = g.crowd()
	case n < 30:
		b = &wire.Batch{}
		g.fill(b.ProtoReflect(), 0)
	default:
		b = g.sound()
	}
	for range g.random.IntN(4) {
		g.alter(b.ProtoReflect())
	}
	data := g.encode(b.ProtoReflect())
	if len(data) > 9<<20 { // more is refused before it is sent
		data = data[:9<<20]
	}
	if g.percent(20) {
		data = g.damage(data)
	}
	return data
}

// damage changes, removes, repeats or moves bytes.
func (g *Generator) damage(data []byte) []byte {
	for range 1 + g.random.IntN(3) {
		if len(data) == 0 {
			return g.noise(10)
		}
		at, to := g.random.IntN(len(data)), g.random.IntN(len(data))
		switch g.random.IntN(4) {
		case 0:
			data[at] ^= byte(1 << g.random.IntN(8))
		case 1:
			data = data[:at]
		case 2:
			data = append(data[:at:at], append(g.noise(g.random.IntN(20)), data[at:]...)...)
		case 3:
			copy(data[min(at, to):], data[max(at, to):])
		}
	}
	return data
}

// sound makes a valid batch of its own cluster.
func (g *Generator) sound() *wire.Batch {
	slot := int64(10_000)
	at := g.now.UnixMilli() - 10*slot
	b := &wire.Batch{
		Format: wire.Format, Cluster: fmt.Sprintf("hostile-%d", g.random.IntN(3)),
		Node: fmt.Sprintf("h%d", g.random.IntN(20)), Collector: fmt.Sprintf("hc%d", g.random.IntN(5)),
		SlotStartMs: at - at%slot - slot*int64(g.random.IntN(1000)), SlotMs: slot, BootMs: at,
		Seq:    uint64(g.random.IntN(1000)),
		Origin: wire.Origin(g.random.IntN(5)), WindowFromMs: at - 86_400_000, WindowToMs: at +
			86_400_000, //nolint:gosec // 0 to 4
	}
	for i := range 1 + g.random.IntN(8) {
		gpu := &wire.Gpu{
			Uuid: fmt.Sprintf("GPU-%s-%s-%d", b.Cluster, b.Node, i), Model: "NVIDIA H100 80GB HBM3", Slices: 7, Index: uint32(i),
			EnergyMj: proto.Int64(int64(g.random.IntN(6_000_000))), IdleWatts: proto.Float64(70), PowerWatts: proto.Float64(300),
			Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7, SmActive: proto.Float64(g.random.Float64())}},
		}
		for range g.random.IntN(3) {
			gpu.Holds = append(gpu.Holds,
				&wire.Hold{Leaf: "gpu", Owner: &wire.Owner{Namespace: g.text(), Pod: g.text(), User: "eve"}})
		}
		b.Gpus = append(b.Gpus, gpu)
	}
	return b
}

// crowd makes a batch that is expensive to settle: within the limits, or slightly above.
func (g *Generator) crowd() *wire.Batch {
	b := g.sound()
	b.Gpus, b.SlotMs = nil, pick(g, []int64{10_000, 3_600_000})
	b.SlotStartMs -= b.SlotStartMs % b.SlotMs
	for p := range int64(pick(g, []int{0, 1, 8, 63, 64})) {
		b.Observed = append(b.Observed, &wire.Interval{FromMs: p * b.SlotMs / 70, ToMs: p*b.SlotMs/70 + b.SlotMs/80})
	}
	boards, leaves := pick(g, []int{1, 8, 64, 256}), pick(g, []int{1, 7, 64, 65, 1024})
	leaves = min(leaves, max(1, 18_000/boards))
	holders := min(pick(g, []int{0, 1, 14, 48, 128, 129, wire.MaxHolds}), max(1, 18_000/boards/leaves))
	for i := range boards {
		gpu := &wire.Gpu{
			Uuid: fmt.Sprintf("GPU-%s-%s-%d", b.Cluster, b.Node, i), Slices: uint32(leaves),
			EnergyMj: proto.Int64(9_999_999),
		} //nolint:gosec // small
		for j := range leaves {
			leaf := &wire.Leaf{Id: fmt.Sprintf("gi%d", j), Slices: 1, Gi: proto.Uint32(uint32(j)), SmActive: proto.Float64(0.5)}
			gpu.Leaves = append(gpu.Leaves, leaf)
			for k := range holders {
				h := &wire.Hold{
					Leaf:  leaf.Id,
					Owner: &wire.Owner{Namespace: "crowd", Pod: fmt.Sprintf("%s-%d-%d", g.names[len(g.names)-1-k%7], j, k)},
				}
				h.FromMs, h.ToMs = proto.Int64(int64(7*k)%b.SlotMs), proto.Int64(b.SlotMs-int64(11*k)%b.SlotMs)
				gpu.Holds = append(gpu.Holds, h)
			}
		}
		b.Gpus = append(b.Gpus, gpu)
	}
	return b
}

// Below returns a number in [0, n).
func (g *Generator) Below(n int) int { return g.random.IntN(n) }

// Key makes a message's key or a header, or a few random bytes.
func (g *Generator) Key() []byte {
	if g.percent(50) {
		return g.noise(g.random.IntN(300))
	}
	g.room = 1 << 20
	return []byte(pick(g, g.names))
}

// MayDamage damages half of the data that it gets.
func (g *Generator) MayDamage(data []byte) []byte {
	if g.percent(50) {
		return data
	}
	return g.damage(data)
}
