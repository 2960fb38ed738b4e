package meter_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// crowd is a batch of so many boards and leaves, each leaf held by so many owners
// at once, who come and go at instants of their own: every piece of the slot has
// another denominator, and every owner's remainder is another.
func crowd(boards, leaves, holders, parts int) *wire.Batch {
	b := &wire.Batch{
		Format: wire.Format, Cluster: "k", Node: "n", Collector: "c", SlotStartMs: 1_772_323_200_000, SlotMs: 3_600_000,
		Origin: wire.Origin_ORIGIN_IMPORT,
	}
	for p := range int64(parts - 1) {
		b.Observed = append(b.Observed, &wire.Interval{FromMs: p * 50_000, ToMs: p*50_000 + 49_000})
	}
	for i := range boards {
		g := &wire.Gpu{
			Uuid: fmt.Sprintf("GPU-%d", i), Slices: uint32(leaves), EnergyMj: proto.Int64(9_999_999), IdleWatts: proto.Float64(1),
		}
		for j := range leaves {
			leaf := fmt.Sprintf("gi%d", j)
			g.Leaves = append(g.Leaves, &wire.Leaf{Id: leaf, Slices: 1, Gi: proto.Uint32(uint32(j)), SmActive: proto.Float64(0.5)})
			for k := range holders {
				g.Holds = append(g.Holds, &wire.Hold{
					Leaf: leaf, FromMs: proto.Int64(int64(7 * k)), ToMs: proto.Int64(3_600_000 - int64(11*k)),
					Owner: &wire.Owner{Namespace: "ns", Pod: fmt.Sprintf("pod-%d-%d-%d", i, j, k), User: "eve"},
				})
			}
		}
		b.Gpus = append(b.Gpus, g)
	}
	return b
}

// costliest are batches that are just within the limits, each dear in its own way.
func costliest() map[string]*wire.Batch {
	return map[string]*wire.Batch{
		"64 leaves of 128 holders": crowd(1, 64, 128, 1),
		"a pool":                   fullPool(),
		"parts":                    crowd(8, 7, 14, wire.MaxObserved),
		"one after the other":      sequential(wire.MaxHolds),
		"leaves":                   crowd(wire.MaxGPUs, 64, 1, 1),
		"boards of 64 holders":     crowd(wire.MaxGPUs, 1, 64, 1),
		"names to compose":         composed(),
	}
}

// BenchmarkCostliest is decoding and settling the costliest batches that the
// limits let in, by workers that have seen none of their owners.
func BenchmarkCostliest(b *testing.B) {
	all := costliest()
	all["an ordinary node"] = crowd(8, 1, 1, 1)
	for name, batch := range all {
		data, err := wire.Encode(batch)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				batch, _, err := wire.Decode(data)
				if err != nil {
					b.Fatal(err)
				}
				meter.Classify(batch, meter.NewIdentities())
			}
		})
	}
}

// TestH5CostliestBatches: the costliest batches are classified in no more than five seconds on
// any machine that runs tests, and memory stays within a multiple of the message.
// They take a tenth of a second on one that does nothing else.
func TestH5CostliestBatches(t *testing.T) {
	for name, batch := range costliest() {
		t.Run(name, func(t *testing.T) {
			data, err := wire.Encode(batch)
			if err != nil {
				t.Fatal(err)
			}
			took := fastest(t, 3, data)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			classify(t, data)
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes: %s, %d MiB allocated", len(data), took, allocated>>20)
			if took > 5*time.Second || allocated > 200<<20 {
				t.Errorf("%d bytes: %s, %d MiB allocated; want less than 5 s and 200 MiB", len(data), took, allocated>>20)
			}
		})
	}
}

// TestH5SettlementIsNotQuadratic: sixteen times as much takes less than eighty times
// as long; it would be 256 times if each were held against each.
func TestH5SettlementIsNotQuadratic(t *testing.T) {
	for name, of := range map[string]func(n int) *wire.Batch{
		"leaves":              func(n int) *wire.Batch { return crowd(1, n, 8, 1) },
		"boards":              func(n int) *wire.Batch { return crowd(4*n, 4, 8, 1) },
		"one after the other": func(n int) *wire.Batch { return sequential(256 * n) },
		"parts":               func(n int) *wire.Batch { return crowd(8, 7, 8, n) },
		"instances":           func(n int) *wire.Batch { return recut(16 * n) },
	} {
		t.Run(name, func(t *testing.T) {
			small, err := wire.Encode(of(4))
			if err != nil {
				t.Fatal(err)
			}
			large, err := wire.Encode(of(64))
			if err != nil {
				t.Fatal(err)
			}
			if x := float64(fastest(t, 5, large)) / float64(fastest(t, 20, small)); x > 80 {
				t.Errorf("sixteen times as much takes %.0f times as long", x)
			}
		})
	}
}

// FuzzHostile: whatever numbers of boards, leaves, holders, parts, gaps and names
// a batch is made of, and whichever byte of it is changed then, it is refused with
// a reason or classified, in bounded time and memory.
func FuzzHostile(f *testing.F) {
	f.Add(uint16(1), uint16(64), uint16(128), uint8(1), uint16(1), "e\u0301", uint32(0), byte(0))
	f.Add(uint16(256), uint16(1), uint16(64), uint8(64), uint16(0), "\u202e", uint32(99), byte(255))
	f.Add(uint16(8), uint16(7), uint16(3), uint8(2), uint16(700), "ml", uint32(7), byte(1))
	f.Fuzz(func(t *testing.T, boards, leaves, holders uint16, parts uint8, later uint16, name string, at uint32, flip byte) {
		boards, leaves, holders = boards%300, leaves%1100, holders%2000
		if int(boards)*int(leaves)*max(int(holders), 1) > 3*wire.MaxHolds { // as large as a message may be
			boards = 1
		}
		b := crowd(int(boards), int(leaves), min(int(holders), 3*wire.MaxHolds/max(int(leaves), 1)), max(int(parts), 1))
		for _, g := range b.Gpus {
			for i, h := range g.Holds {
				*h.FromMs = min(*h.FromMs+int64(i)*int64(later), *h.ToMs)
				h.Owner.Pod = strings.ToValidUTF8(name, "") + h.Owner.Pod
			}
		}
		data, err := wire.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		data[int(at)%len(data)] ^= flip
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now() //nolint:forbidigo // what is measured is time itself
		if b, _, err = wire.Decode(data); err == nil {
			meter.Classify(b, meter.NewIdentities())
		} else if refused := (*wire.Error)(nil); !errors.As(err, &refused) || refused.Reason == "" || len(err.Error()) > 1000 {
			t.Errorf("refused as %.1000v", err)
		}
		took := time.Since(began) //nolint:forbidigo // as above
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; took > 5*time.Second || n > 256<<20+40*uint64(len(data)) {
			t.Errorf("%d bytes: %s and %d MiB", len(data), took, n>>20)
		}
	})
}

// fastest of n runs: what else the machine does only makes one slower.
func fastest(t *testing.T, n int, data []byte) time.Duration {
	t.Helper()
	least := time.Hour
	for range n {
		began := time.Now() //nolint:forbidigo // what is measured is time itself
		classify(t, data)
		least = min(least, time.Since(began)) //nolint:forbidigo // as above
	}
	return least
}

func classify(t *testing.T, data []byte) {
	t.Helper()
	batch, _, err := wire.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	meter.Classify(batch, meter.NewIdentities())
}

func fullPool() *wire.Batch {
	b := crowd(0, 0, 0, 1)
	g := &wire.Gpu{Uuid: "k/n", Pool: true, Slices: 1_000_000_000}
	for i := range wire.MaxLeaves {
		id := fmt.Sprintf("job-%d", i)
		g.Leaves = append(g.Leaves, &wire.Leaf{Id: id, Slices: 10_000, FromMs: proto.Int64(int64(i))})
		g.Holds = append(g.Holds, &wire.Hold{Leaf: id, FromMs: proto.Int64(int64(i)), Owner: &wire.Owner{Account: "a", User: id}})
	}
	b.Gpus = append(b.Gpus, g)
	return b
}

// sequential is a leaf that one owner after the other holds.
func sequential(n int) *wire.Batch {
	b := crowd(1, 1, 0, 1)
	for i := range n {
		b.Gpus[0].Holds = append(b.Gpus[0].Holds, &wire.Hold{
			Leaf: "gi0", FromMs: proto.Int64(int64(i) * 200), ToMs: proto.Int64(int64(i)*200 + 200), Owner: &wire.Owner{Namespace: "ns", Pod: fmt.Sprint("pod-", i)},
		})
	}
	return b
}

// composed is owners whose names take the normaliser longest.
func composed() *wire.Batch {
	b := sequential(3000)
	for i, h := range b.Gpus[0].Holds {
		h.Owner.Pod = strings.Repeat("e\u0301\u0323", 70) + fmt.Sprint(i)
	}
	return b
}

// recut is a board whose instances are made anew n times in the slot, with and
// without compute instances.
func recut(n int) *wire.Batch {
	b := crowd(1, 0, 0, 1)
	b.Gpus[0].Slices = 7
	for i := range int64(n) {
		l := &wire.Leaf{Id: fmt.Sprint(i), Slices: 1, Gi: proto.Uint32(0), FromMs: proto.Int64(1000 * i), ToMs: proto.Int64(1000*i + 1000)}
		if i%2 == 0 {
			l.Ci = proto.Uint32(0)
		}
		b.Gpus[0].Leaves = append(b.Gpus[0].Leaves, l)
	}
	return b
}
