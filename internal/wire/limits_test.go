package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/wire"
)

// TestLimits: what is at a limit is taken, what is over it is refused with the
// reason that a dead letter has, and an error that stays short.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", wire.MaxNameBytes+1)
	huge := strings.Repeat("x", 9<<20)
	for _, c := range []struct {
		says         string
		at, overLine func(*wire.Batch)
	}{
		{"slot 946684790000:", starts(wire.MinTimeMS), starts(wire.MinTimeMS - 10_000)},
		{"slot 0:", starts(wire.MinTimeMS), starts(0)},
		{"slot 4294967300000:", starts(wire.MaxTimeMS - 16_000), starts(4_294_967_300_000)},
		{"boot_ms", func(b *wire.Batch) { b.BootMs = wire.MaxTimeMS }, func(b *wire.Batch) { b.BootMs = wire.MaxTimeMS + 1 }},
		{"seq", func(b *wire.Batch) { b.Seq = wire.MaxSeq }, func(b *wire.Batch) { b.Seq = wire.MaxSeq + 1 }},
		{"predecessor", func(b *wire.Batch) { b.Predecessor.LastSeq = wire.MaxSeq }, func(b *wire.Batch) { b.Predecessor.LastSeq = 1 << 63 }},
		{"gaps[0]", func(b *wire.Batch) { b.Gaps[0].ToSeq = wire.MaxSeq }, func(b *wire.Batch) { b.Gaps[0].FromSeq = b.Gaps[0].ToSeq + 1 }},
		{"gaps", gaps(wire.MaxGaps), gaps(wire.MaxGaps + 1)},
		{"counters", func(b *wire.Batch) { b.Counters.Sampled = wire.MaxSeq }, func(b *wire.Batch) { b.Counters.Dropped["full"] = 1 << 63 }},
		{"counters.dropped", reasons(wire.MaxReasons), reasons(wire.MaxReasons + 1)},
		{"events", events(wire.MaxEvents), events(wire.MaxEvents + 1)},
		{"events[0].at_ms", func(b *wire.Batch) { b.Events[0].AtMs = 10_000 }, func(b *wire.Batch) { b.Events[0].AtMs = -1 << 63 }},
		{"events[0]", func(b *wire.Batch) { b.Events[0].Detail = long }, func(b *wire.Batch) { b.Events[0].Detail = huge }},
		{"observed", observed(wire.MaxObserved), observed(wire.MaxObserved + 1)},
		{"gpus", boards(wire.MaxGPUs), boards(wire.MaxGPUs + 1)},
		{"pools", pools(wire.MaxPools, 1), pools(wire.MaxPools+1, 1)},
		{"slices of all pools", pools(4, wire.MaxPoolSlices/4), pools(4, wire.MaxPoolSlices/4+1)},
		{"leaves", leaves(wire.MaxLeavesAtOnce, 0), leaves(wire.MaxLeavesAtOnce+1, 0)},
		{"leaves", leaves(wire.MaxBoardLeaves, 1), leaves(wire.MaxBoardLeaves+1, 1)},
		{"leaves of all gpus", allocations(wire.MaxLeaves), allocations(wire.MaxLeaves + 1)},
		{`leaf "gpu": 129 holds`, holds(wire.MaxHolders, 0), holds(wire.MaxHolders+1, 0)},
		{"holds of all gpus", holds(wire.MaxHolds, 2000), holds(wire.MaxHolds+1, 2000)},
		{"metric_fields", metrics(wire.MaxMetrics), metrics(wire.MaxMetrics + 1)},
		{"cluster", func(b *wire.Batch) { b.Cluster = long[1:] }, func(b *wire.Batch) { b.Cluster = huge }},
		{"node", func(b *wire.Batch) { b.Node = "zürich" }, func(b *wire.Batch) { b.Node = "n1\u200b" }},
		{"collector", func(b *wire.Batch) { b.Collector = `a\b` }, func(b *wire.Batch) { b.Collector = "a\x00" }},
		{"uuid", func(b *wire.Batch) { b.Gpus[0].Uuid = long[1:] }, func(b *wire.Batch) { b.Gpus[0].Uuid = long }},
		{"model", func(b *wire.Batch) { b.Gpus[0].Model = "Über 9" }, func(b *wire.Batch) { b.Gpus[0].Model = "U\u0308ber 9" }},
		{"profile", func(b *wire.Batch) { b.Gpus[1].Leaves[0].Profile = "" }, func(b *wire.Batch) { b.Gpus[1].Leaves[0].Profile = "\u202e" }},
		{"mig_uuid", func(b *wire.Batch) { b.Gpus[1].Leaves[0].MigUuid = "" }, func(b *wire.Batch) { b.Gpus[1].Leaves[0].MigUuid = huge }},
		{"owner.pod", pod(strings.Repeat("x", wire.MaxTextBytes)), pod(huge)},
		{"owner.pod", pod("\x00\u202e\n"), pod(strings.Repeat("\u200b", wire.MaxTextBytes))},
	} {
		b := richBatch()
		c.at(b)
		if _, _, err := wire.Decode(encode(t, b)); err != nil {
			t.Errorf("%s at its limit: %v", c.says, err)
		}
		b = richBatch()
		c.overLine(b)
		refused(t, encode(t, b), "limits", c.says)
	}
}

func refused(t *testing.T, data []byte, reason, says string) {
	t.Helper()
	_, _, err := wire.Decode(data)
	var because *wire.Error
	if !errors.As(err, &because) || because.Reason != reason || !strings.Contains(err.Error(), says) || len(err.Error()) > 500 {
		t.Errorf("%s over its limit: %.500v, want reason %q", says, err, reason)
	}
}

func starts(ms int64) func(*wire.Batch) {
	return func(b *wire.Batch) { b.SlotStartMs = ms - ms%b.SlotMs }
}

func gaps(n int) func(*wire.Batch) {
	return func(b *wire.Batch) { b.Gaps = make([]*wire.SeqGap, n); fill(b.Gaps, &wire.SeqGap{}) }
}

func events(n int) func(*wire.Batch) {
	return func(b *wire.Batch) { b.Events = make([]*wire.Event, n); fill(b.Events, &wire.Event{}) }
}

func fill[T any](list []*T, with *T) {
	for i := range list {
		list[i] = with
	}
}

func reasons(n int) func(*wire.Batch) {
	return func(b *wire.Batch) {
		for i := len(b.Counters.Dropped); i < n; i++ {
			b.Counters.Dropped[fmt.Sprint(i)] = 0
		}
	}
}

func observed(n int64) func(*wire.Batch) {
	return func(b *wire.Batch) {
		b.Observed = nil
		for i := range n {
			b.Observed = append(b.Observed, &wire.Interval{FromMs: i * 100, ToMs: i*100 + 99})
		}
	}
}

func boards(n int) func(*wire.Batch) {
	return func(b *wire.Batch) {
		b.Gpus = nil
		for i := range n {
			b.Gpus = append(b.Gpus, &wire.Gpu{Uuid: fmt.Sprint(i)})
		}
	}
}

func pools(n int, slices uint32) func(*wire.Batch) {
	return func(b *wire.Batch) {
		boards(n)(b)
		for _, g := range b.Gpus {
			g.Pool, g.Slices = true, slices
		}
	}
}

func leaves(n int, each int64) func(*wire.Batch) {
	return func(b *wire.Batch) {
		boards(1)(b)
		for i := range int64(n) {
			l := &wire.Leaf{Id: fmt.Sprint(i)}
			if each > 0 { // one after the other
				l.FromMs, l.ToMs = proto.Int64(each*i), proto.Int64(each*i+each)
			}
			b.Gpus[0].Leaves = append(b.Gpus[0].Leaves, l)
		}
	}
}

func allocations(n int) func(*wire.Batch) {
	return func(b *wire.Batch) {
		leaves(n, 0)(b)
		b.Gpus[0].Pool, b.Gpus[0].Slices = true, uint32(n)
		for _, l := range b.Gpus[0].Leaves {
			l.Slices = 1
		}
	}
}

// holds are so many of one leaf, so many of them one after the other.
func holds(n int, rows int64) func(*wire.Batch) {
	return func(b *wire.Batch) {
		leaves(1, 0)(b)
		b.Gpus[0].Leaves[0].Id, b.Observed = "gpu", nil
		for i := range int64(n) {
			h := &wire.Hold{Leaf: "gpu", Owner: &wire.Owner{}}
			if rows > 0 {
				h.FromMs = proto.Int64(i % rows)
				h.ToMs = proto.Int64(i%rows + 1)
			}
			b.Gpus[0].Holds = append(b.Gpus[0].Holds, h)
		}
	}
}

func metrics(n int) func(*wire.Batch) {
	return func(b *wire.Batch) {
		b.Gpus[0].MetricFields, b.Gpus[0].MetricValues = make([]uint32, n), make([]float64, n)
	}
}

func pod(name string) func(*wire.Batch) {
	return func(b *wire.Batch) { b.Gpus[0].Holds[0].Owner.Pod = name }
}

// TestH5TooCostly: within the limits of each part, the whole may still take too
// long. The verdict depends on the batch alone.
func TestH5TooCostly(t *testing.T) {
	for name, change := range map[string]func(*wire.Batch){
		"128 holders at once on 9 boards of 14 leaves": func(b *wire.Batch) {
			b.Gpus = nil
			for i := range 9 {
				g := &wire.Gpu{Uuid: fmt.Sprint(i)}
				for j := range 14 {
					g.Leaves = append(g.Leaves, &wire.Leaf{Id: fmt.Sprint(j)})
					for range 128 {
						g.Holds = append(g.Holds, &wire.Hold{Leaf: fmt.Sprint(j), Owner: &wire.Owner{}})
					}
				}
				b.Gpus = append(b.Gpus, g)
			}
		},
		"holds times parts of the slot": func(b *wire.Batch) {
			holds(4000, 200)(b)
			observed(64)(b)
		},
		"names to compose": func(b *wire.Batch) {
			holds(4000, 200)(b)
			for _, h := range b.Gpus[0].Holds {
				h.Owner.Pod = strings.Repeat("e\u0301", 110)
			}
		},
		"names of leaves to compose": func(b *wire.Batch) {
			allocations(wire.MaxLeaves)(b)
			for _, l := range b.Gpus[0].Leaves {
				l.Id += strings.Repeat("é", 60)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := richBatch()
			change(b)
			refused(t, encode(t, b), "too_costly", "costs")
		})
	}
}

// TestH5TinyMessages: messages of two bytes, and fields that nobody knows, are
// counted before memory is taken for them.
func TestH5TinyMessages(t *testing.T) {
	for name, field := range map[string][]byte{
		"gpus":           protowire.AppendBytes(protowire.AppendTag(nil, 13, protowire.BytesType), nil),
		"events":         protowire.AppendBytes(protowire.AppendTag(nil, 21, protowire.BytesType), nil),
		"unknown fields": protowire.AppendVarint(protowire.AppendTag(nil, 2000, protowire.VarintType), 1),
		"a wrong type":   protowire.AppendVarint(protowire.AppendTag(nil, 13, protowire.VarintType), 1),
		"counters": protowire.AppendBytes(protowire.AppendTag(nil, 18, protowire.BytesType),
			protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), nil)),
	} {
		t.Run(name, func(t *testing.T) {
			data := append(encode(t, richBatch()), []byte(strings.Repeat(string(field), (10<<20)/len(field)))...)
			refused(t, data, "limits", "messages and unknown fields")
			if n := testing.AllocsPerRun(1, func() { _, _, _ = wire.Decode(data) }); n > 100 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestH5InstancesAreGrouped: an instance is held against its own compute instances
// only, whatever order they stand in.
func TestH5InstancesAreGrouped(t *testing.T) {
	whole := func(gi uint32, from, to int64) *wire.Leaf {
		return &wire.Leaf{Gi: &gi, FromMs: &from, ToMs: &to}
	}
	compute := func(gi, ci uint32, from, to int64) *wire.Leaf {
		l := whole(gi, from, to)
		l.Ci = &ci
		return l
	}
	for _, c := range []struct {
		leaves []*wire.Leaf
		bad    bool
	}{
		{[]*wire.Leaf{compute(1, 0, 0, 5000), whole(1, 5000, 9000), compute(1, 1, 9000, 10_000)}, false},
		{[]*wire.Leaf{compute(1, 0, 0, 8000), compute(1, 1, 1000, 2000), whole(1, 5000, 9000)}, true},
		{[]*wire.Leaf{whole(1, 5000, 9000), compute(1, 1, 8999, 10_000), compute(1, 0, 0, 10)}, true},
		{[]*wire.Leaf{whole(1, 0, 10_000), compute(2, 0, 0, 10_000)}, false},
		{[]*wire.Leaf{whole(1, 5000, 5000), compute(1, 0, 0, 10_000)}, false},
		{[]*wire.Leaf{whole(1, 0, 10_000), compute(1, 0, 5000, 5000)}, false},
	} {
		b := richBatch()
		for i, l := range c.leaves {
			l.Id = fmt.Sprint(i)
		}
		b.Gpus = []*wire.Gpu{{Uuid: "g", Mig: true, Leaves: c.leaves}}
		if err := wire.Validate(b); (err != nil) != c.bad {
			t.Errorf("Validate(%v) = %v", c.leaves, err)
		}
	}
}

// TestM13EnergyBeyondABoard: what no board can take in the time is absent.
func TestM13EnergyBeyondABoard(t *testing.T) {
	const slot = 10_000
	for _, c := range []struct {
		mj   int64
		span *int64
		ok   bool
	}{
		{36_000_000, nil, true}, // 3 kW for 12 s
		{36_000_001, nil, false},
		{6_000_000, proto.Int64(0), true}, // the sensor's own delay
		{6_000_001, proto.Int64(0), false},
		{1e15, nil, false},
		{1e15, proto.Int64(1 << 40), false}, // 34 years
		{1e14, proto.Int64(wire.MaxEnergySpanMS), true},
		{1e14, proto.Int64(wire.MaxEnergySpanMS + 1), false},
		{1<<63 - 1, proto.Int64(1<<63 - 1), false},
	} {
		g := &wire.Gpu{EnergyMj: &c.mj, EnergySpanMs: c.span}
		if mj, _, ok := wire.Energy(g, slot); ok != c.ok || (ok && mj != c.mj) || (!ok && mj != 0) {
			t.Errorf("Energy of %d mJ over %v ms = %d, %v; want %v", c.mj, g.GetEnergySpanMs(), mj, ok, c.ok)
		}
	}
	if mj, _, ok := wire.Energy(&wire.Gpu{}, slot); mj != 0 || ok {
		t.Errorf("energy that nobody read is %d, %v", mj, ok)
	}
}
