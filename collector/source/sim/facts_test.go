package sim

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

// TestDayIsValid holds whole days in which things break, in slots of several
// lengths, against the contract's rules and this package's own.
func TestDayIsValid(t *testing.T) {
	s := demo(t)
	for day, length := range map[int]time.Duration{3: 10 * time.Second, 5: time.Minute, 6: time.Minute, 23: 20 * time.Second} {
		for at := on2026(9, day, 0, 0); at.Before(on2026(9, day+1, 0, 0)); at = at.Add(length) {
			for _, b := range read(t, s, at, length) {
				b.Collector = "sim"
				if err := wire.Validate(b); err != nil {
					t.Fatalf("%s %s: %v", b.Node, at, err)
				}
				checkBatch(t, b, at)
			}
		}
	}
}

func checkBatch(t *testing.T, b *wire.Batch, at time.Time) {
	t.Helper()
	if b.SlotStartMs != at.UnixMilli() || b.Origin != wire.Origin_ORIGIN_SIMULATED || b.WindowToMs <= b.WindowFromMs {
		t.Fatalf("%s %s: slot %d, origin %s, window %d to %d", b.Node, at, b.SlotStartMs, b.Origin, b.WindowFromMs, b.WindowToMs)
	}
	for _, e := range b.Events {
		if e.AtMs < 0 || e.AtMs >= b.SlotMs {
			t.Fatalf("%s %s: event at %d ms", b.Node, at, e.AtMs)
		}
	}
	for _, g := range b.Gpus {
		sum := uint32(0)
		for _, l := range g.Leaves {
			sum += l.Slices
			checkLeaf(t, g, l)
		}
		if sum > g.Slices {
			t.Fatalf("%s: leaves have %d slices of %d", g.Uuid, sum, g.Slices)
		}
		checkHolds(t, b, g)
		if g.PowerWatts != nil && (*g.PowerWatts < 50 || *g.PowerWatts > 690) {
			t.Fatalf("%s %s: power %v W", g.Uuid, at, *g.PowerWatts)
		}
	}
}

func checkLeaf(t *testing.T, g *wire.Gpu, l *wire.Leaf) {
	t.Helper()
	if g.Lost {
		if l.SmActive != nil || g.PowerWatts != nil {
			t.Fatalf("%s is lost and has readings", g.Uuid)
		}
		return
	}
	sm, gr := *l.SmActive, *l.GrEngineActive
	if sm < 3e-5 || sm > 1 || gr < sm || gr > 1 {
		t.Fatalf("%s %s: sm_active %v, gr_engine_active %v", g.Uuid, l.Id, sm, gr)
	}
	if g.Mig != (l.GpuUtil == nil) {
		t.Fatalf("%s %s: mig %v, gpu_util %v", g.Uuid, l.Id, g.Mig, l.GpuUtil)
	}
	if l.GpuUtil != nil && sm >= 0.005 && *l.GpuUtil == 0 {
		t.Fatalf("%s %s: sm_active %v with gpu_util 0", g.Uuid, l.Id, sm)
	}
}

// checkHolds asserts that a leaf without replicas has one holder at a time,
// and that nothing is held outside of what was seen.
func checkHolds(t *testing.T, b *wire.Batch, g *wire.Gpu) {
	t.Helper()
	observed := wire.Observed(b)
	for i, h := range g.Holds {
		lo, hi := wire.Span(h.FromMs, h.ToMs, b.SlotMs)
		seen := false
		for _, o := range observed {
			seen = seen || o.FromMs <= lo && hi <= o.ToMs
		}
		if !seen || lo >= hi {
			t.Fatalf("%s: hold %d to %d lies outside of what was seen", g.Uuid, lo, hi)
		}
		for _, other := range g.Holds[:i] {
			from, to := wire.Span(other.FromMs, other.ToMs, b.SlotMs)
			if other.Leaf == h.Leaf && max(lo, from) < min(hi, to) && g.Leaves[0].Replicas == 0 {
				t.Fatalf("%s: %s is held by %s and %s at once", g.Uuid, h.Leaf, h.Owner, other.Owner)
			}
		}
	}
}

// TestEnergyDoesNotDependOnTheSlot sums a day with a blind time of 20 s and
// one of a node that stays up, in slots of several lengths.
func TestEnergyDoesNotDependOnTheSlot(t *testing.T) {
	s := demo(t)
	sum := func(day int, length time.Duration) map[string]int64 {
		out := map[string]int64{}
		for at := on2026(9, day, 15, 0); at.Before(on2026(9, day, 18, 0)); at = at.Add(length) {
			for _, b := range read(t, s, at, length) {
				for _, g := range b.Gpus {
					if g.EnergyReset || g.EnergyMj == nil {
						t.Fatalf("%s %s: a reset in the test's time", g.Uuid, at)
					}
					out[g.Uuid] += *g.EnergyMj
				}
			}
		}
		return out
	}
	for _, day := range []int{3, 9} {
		want := sum(day, 10*time.Second)
		for _, length := range []time.Duration{36 * time.Second, time.Minute, time.Hour} {
			if diff := cmp.Diff(want, sum(day, length)); diff != "" {
				t.Errorf("day %d: energy in slots of 10 s and %s (-want +got):\n%s", day, length, diff)
			}
		}
	}
}

// TestEnergyIsTheIntegralOfPower checks the closed form against a sum over
// every millisecond of the same curve.
func TestEnergyIsTheIntegralOfPower(t *testing.T) {
	s := demo(t)
	slot := source.At(on2026(9, 9, 15, 7), time.Minute)
	batches, err := s.Read(context.Background(), slot)
	if err != nil {
		t.Fatal(err)
	}
	p := s.plan(slot.Start.UnixMilli())
	for ni, b := range batches {
		for gi, g := range b.Gpus {
			board, want := &s.fleet.nodes[ni].boards[gi], int64(0)
			for ms := slot.Start.UnixMilli(); ms < slot.End().UnixMilli(); ms++ {
				want += wattsAt(p, board, ms)
			}
			if *g.EnergyMj != want {
				t.Errorf("%s: energy_mj %d, the curve's integral is %d", g.Uuid, *g.EnergyMj, want)
			}
		}
	}
}

func wattsAt(p *plan, b *board, ms int64) int64 {
	watts := b.restEnergyMJ(span{ms, ms + 1})
	for i := range b.leaves {
		l := &b.leaves[i]
		for _, runs := range p.lanes[l.lane : l.lane+l.lanes] {
			for _, r := range runs {
				if r.has(ms) {
					watts += r.load.level(ms/blockMS) * l.dynNum / l.dynDen
				}
			}
		}
	}
	return watts
}

func TestQuietBoardsAreBelowTheIdlePower(t *testing.T) {
	s, quiet := demo(t), 0
	for _, b := range read(t, s, on2026(9, 13, 3, 0), time.Minute) {
		for _, g := range b.Gpus {
			busy := false
			for _, l := range g.Leaves {
				busy = busy || *l.SmActive >= 0.005
			}
			if busy {
				continue
			}
			quiet++
			if *g.PowerWatts > *g.IdleWatts {
				t.Errorf("%s is quiet at %v W, above its idle power of %v W", g.Uuid, *g.PowerWatts, *g.IdleWatts)
			}
		}
	}
	if quiet < 8 {
		t.Errorf("%d quiet boards on the idle weekend, want at least 8", quiet)
	}
}

func TestFailures(t *testing.T) {
	s := demo(t)
	get := func(name string, day, hour, minute int) *wire.Batch {
		return ofNode(read(t, s, on2026(9, day, hour, minute), time.Minute), name)
	}
	kinds := func(b *wire.Batch) (out []string) {
		for _, e := range b.Events {
			out = append(out, e.Kind)
		}
		return out
	}

	lost := get("sim-node-1", 6, 3, 12)
	if !lost.Gpus[3].Lost || lost.Gpus[2].Lost || lost.Gpus[3].EnergyMj != nil {
		t.Error("board 3 of sim-node-1 is not the one that is lost")
	}
	if diff := cmp.Diff([]string{"xid", "lost"}, kinds(lost)); diff != "" {
		t.Errorf("events of a loss (-want +got):\n%s", diff)
	}
	if back := get("sim-node-1", 6, 8, 32); !back.Gpus[3].EnergyReset || get("sim-node-1", 6, 8, 33).Gpus[3].Lost {
		t.Error("board 3 of sim-node-1 does not come back with a new counter")
	}

	sick := get("sim-node-2", 5, 15, 0).Gpus[1]
	if !sick.Unhealthy || *sick.Leaves[0].SmActive >= 0.005 || *sick.PowerWatts > 80 {
		t.Errorf("flagged board: unhealthy %v, sm_active %v, %v W", sick.Unhealthy, *sick.Leaves[0].SmActive, *sick.PowerWatts)
	}
	if get("sim-node-2", 5, 16, 16).Gpus[1].Unhealthy {
		t.Error("the flag outlives the reset")
	}

	if b := get("sim-node-2", 2, 11, 23); b.Attribution != wire.Attribution_ATTRIBUTION_FAILED || len(b.Gpus[0].Holds) != 0 {
		t.Errorf("failed attribution: %s with %d holds", b.Attribution, len(b.Gpus[0].Holds))
	}

	reset := get("sim-node-3", 25, 10, 0).Gpus
	if !reset[1].EnergyReset || reset[0].EnergyReset || *reset[1].EnergySpanMs != 56_300 {
		t.Errorf("energy reset: %v over %d ms", reset[1].EnergyReset, *reset[1].EnergySpanMs)
	}
}

func TestBlindTimes(t *testing.T) {
	s := demo(t)
	get := func(name string, day, hour, minute int) *wire.Batch {
		return ofNode(read(t, s, on2026(9, day, hour, minute), time.Minute), name)
	}
	observed := func(b *wire.Batch) (out [][2]int64) {
		for _, o := range b.Observed {
			out = append(out, [2]int64{o.FromMs, o.ToMs})
		}
		return out
	}

	short := get("sim-node-3", 3, 16, 33)
	if diff := cmp.Diff([][2]int64{{0, 20_000}, {40_000, 60_000}}, observed(short)); diff != "" {
		t.Errorf("seen parts around a gap of 20 s (-want +got):\n%s", diff)
	}
	if *short.Gpus[0].EnergySpanMs != 60_000 {
		t.Errorf("energy over a gap inside the slot covers %d ms", *short.Gpus[0].EnergySpanMs)
	}

	if b := get("sim-node-1", 24, 5, 12); !b.Unobserved || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("slot in a gap of minutes: unobserved %v, %s", b.Unobserved, b.Enumeration)
	}
	after := get("sim-node-1", 24, 5, 17)
	if diff := cmp.Diff([][2]int64{{30_000, 60_000}}, observed(after)); diff != "" {
		t.Errorf("seen part after a gap of minutes (-want +got):\n%s", diff)
	}
	if *after.Gpus[0].EnergySpanMs != 450_000 {
		t.Errorf("energy over a gap of minutes covers %d ms, want 450000", *after.Gpus[0].EnergySpanMs)
	}

	if get("sim-node-4", 23, 22, 45) != nil {
		t.Error("a node that is down has a batch")
	}
	back := get("sim-node-4", 23, 22, 49)
	if diff := cmp.Diff([][2]int64{{48_540, 60_000}}, observed(back)); diff != "" || !back.Gpus[7].EnergyReset {
		t.Errorf("seen part after a reboot (-want +got):\n%s", diff)
	}
}

func TestInstancesAreCreatedInsideASlot(t *testing.T) {
	s := demo(t)
	if g := ofNode(read(t, s, on2026(9, 5, 10, 16), time.Minute), "sim-node-3").Gpus[6]; !g.Mig || len(g.Leaves) != 0 {
		t.Errorf("before: mig %v, %d leaves", g.Mig, len(g.Leaves))
	}
	g := ofNode(read(t, s, on2026(9, 5, 10, 17), time.Minute), "sim-node-3").Gpus[6]
	if len(g.Leaves) != 7 || g.Leaves[0].GetFromMs() != 23_456 {
		t.Errorf("%d leaves from %d ms, want 7 from 23456", len(g.Leaves), g.Leaves[0].GetFromMs())
	}
}

// TestFleetLooksReal measures a month's sample of capacity.
func TestFleetLooksReal(t *testing.T) {
	s := demo(t)
	capacity, held, busy, leaves := 0.0, 0.0, 0.0, 0
	for at := on2026(9, 1, 0, 0); at.Before(on2026(9, 30, 0, 0)); at = at.Add(31 * time.Minute) {
		leaves = 0
		for _, b := range read(t, s, at, time.Minute) {
			for _, g := range b.Gpus {
				capacity += float64(g.Slices)
				leaves += len(g.Leaves)
				h, w := heldSlices(b, g)
				held, busy = held+h, busy+w
			}
		}
	}
	t.Logf("leaves %d, held %.3f, at work %.3f of capacity", leaves, held/capacity, busy/capacity)
	if leaves < 70 || leaves > 90 {
		t.Errorf("%d leaves, want about 80", leaves)
	}
	if share := held / capacity; share < 0.55 || share > 0.72 {
		t.Errorf("held share %.3f, want 0.55 to 0.72", share)
	}
	if share := busy / held; share < 0.6 || share > 0.95 {
		t.Errorf("share of held time at work %.3f, want 0.6 to 0.95", share)
	}
}

func heldSlices(b *wire.Batch, g *wire.Gpu) (held, busy float64) {
	for _, h := range g.Holds {
		for _, l := range g.Leaves {
			if l.Id != h.Leaf {
				continue
			}
			lo, hi := wire.Span(h.FromMs, h.ToMs, b.SlotMs)
			s := float64(l.Slices) * float64(hi-lo) / float64(b.SlotMs) / float64(max(1, l.Replicas))
			held += s
			if l.GetSmActive() >= 0.005 {
				busy += s
			}
		}
	}
	return held, busy
}

// BenchmarkRead is one slot of the demo fleet, four batches, encoded. A month
// of minutes is 44,640 of them: at most 5 s, so at most 112 µs each.
func BenchmarkRead(b *testing.B) {
	s := demo(b)
	slots := int64(DefaultConfig().WindowTo.Sub(DefaultConfig().WindowFrom) / time.Minute)
	var size int64
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		batches := read(b, s, DefaultConfig().WindowFrom.Add(time.Duration(n%slots)*time.Minute), time.Minute)
		n++
		for _, batch := range batches {
			raw, err := wire.Encode(batch)
			if err != nil {
				b.Fatal(err)
			}
			size += int64(len(raw))
		}
	}
	b.ReportMetric(float64(size)/float64(n), "B/slot")
}
