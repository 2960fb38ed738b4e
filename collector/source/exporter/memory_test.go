package exporter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gputally/gputally/collector/source/gpustate"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

const energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"

func TestEnergyIsTheCountersMovement(t *testing.T) {
	type moved struct {
		mj, spanMS int64
		reset      bool
	}
	r := newRig(t, nil)
	for i, c := range []struct {
		counter any // nil: the row is missing
		want    *moved
	}{
		{1_000_000, nil}, // first scrape
		{1_700_000, &moved{700_000, 10_000, false}},
		{nil, nil}, // field away
		{3_100_000, &moved{1_400_000, 20_000, false}}, // since it was last there
		{3_100_000, nil}, // frozen
		{3_100_000, nil}, // frozen
		{3_500_000, &moved{400_000, 30_000, false}}, // since that value was first seen
		{250_000, &moved{250_000, 10_000, true}},    // reset
		{"9223372036854775794", nil},                // blank
		{900_000, &moved{650_000, 20_000, false}},
	} {
		rows := row("DCGM_FI_DEV_POWER_USAGE", h100, 70)
		if c.counter != nil {
			rows += row(energy, h100, c.counter)
		}
		g := r.gpu(rows)
		var got *moved
		if g.EnergyMj != nil {
			got = &moved{g.GetEnergyMj(), g.GetEnergySpanMs(), g.EnergyReset}
		}
		switch {
		case (got == nil) != (c.want == nil):
			t.Errorf("scrape %d: energy %v, want %v", i, got, c.want)
		case got != nil && *got != *c.want:
			t.Errorf("scrape %d: energy %+v, want %+v", i, *got, *c.want)
		}
		if g.GetPowerWatts() != 70 {
			t.Errorf("scrape %d: power %v W, want the gauge's 70", i, g.GetPowerWatts())
		}
	}
}

func TestXIDCountsByItsChange(t *testing.T) {
	r := newRig(t, nil)
	counter := 1_000_000
	scrape := func(xid int) (*wire.Gpu, []*wire.Event) {
		counter += 700_000
		b := r.batch(row("DCGM_FI_DEV_XID_ERRORS", h100, xid) + row(energy, h100, counter))
		return b.Gpus[0], b.Events
	}
	expect := func(step string, xid int, unhealthy bool, want ...*wire.Event) {
		t.Helper()
		g, events := scrape(xid)
		if g.Unhealthy != unhealthy {
			t.Errorf("%s: unhealthy %v, want %v", step, g.Unhealthy, unhealthy)
		}
		diff(t, want, events)
	}
	event := func(code int64) *wire.Event {
		return &wire.Event{AtMs: 9_999, Gpu: "GPU-h", Kind: "xid", Code: code}
	}
	expect("an old XID at start is no news", 79, false)
	expect("still there", 79, false)
	expect("a user's own fault flags nothing", 31, false, event(31))
	expect("fatal", 79, true, event(79))
	expect("the flag stays", 79, true)
	expect("another XID does not clear it", 13, true, event(13))
	expect("nor does 0", 0, true)
	counter = -600_000 // the next scrape shows 100000: reset
	expect("a reset counter clears it", 0, false, &wire.Event{AtMs: 9_999, Gpu: "GPU-h", Kind: "reset", Detail: "energy counter went down"})
	expect("and again", 119, true, event(119))
}

func TestXIDOfAnInstanceFlagsTheInstance(t *testing.T) {
	r := newRig(t, nil)
	scrape := func(xid int) *wire.Batch {
		return r.batch(text(
			row("DCGM_FI_DEV_XID_ERRORS", a100+gi(7, "1g.5gb"), 0),
			row("DCGM_FI_DEV_XID_ERRORS", a100+gi(8, "1g.5gb"), xid),
		))
	}
	scrape(0)
	b := scrape(95)
	g := b.Gpus[0]
	if g.Unhealthy || g.Leaves[0].Unhealthy || !g.Leaves[1].Unhealthy {
		t.Errorf("unhealthy: board %v, gi7 %v, gi8 %v; want gi8 alone", g.Unhealthy, g.Leaves[0].Unhealthy, g.Leaves[1].Unhealthy)
	}
	diff(t, []*wire.Event{{AtMs: 9_999, Gpu: "GPU-a", Leaf: "gi8", Kind: "xid", Code: 95}}, b.Events)
}

func TestMemoryEndsWithTheInventory(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(row(energy, h100, 1000))
	r.clk.Advance(gpustate.ForgetAfter + 1)
	r.gpu(row(energy, a100, 1000))
	if r.src.memory.Len() != 1 {
		t.Errorf("%d GPUs remembered, want the listed one alone", r.src.memory.Len())
	}
}

// TestOneUUIDOnTwoNodesIsTwoCounters: clones of a machine image may show the
// UUIDs of their original.
func TestOneUUIDOnTwoNodesIsTwoCounters(t *testing.T) {
	clone := newRig(t, nil) // only its server is used
	r := newRig(t, func(c *Config) { c.Targets = append(c.Targets, Target{URL: clone.url, TrustHostname: true}) })
	const there = `gpu="0",UUID="GPU-h",modelName="NVIDIA H100 80GB HBM3",Hostname="n2"`
	var moved [][2]int64
	for i := range 3 {
		clone.setText(text(row(energy, there, 90_000_000+i*100_000), row("DCGM_FI_DEV_XID_ERRORS", there, 79*min(i, 1))))
		batches, err := r.read(text(row(energy, h100, 1_000_000+i*700_000), row("DCGM_FI_DEV_XID_ERRORS", h100, 0)))
		if err != nil || len(batches) != 2 {
			t.Fatalf("got %d batches and error %v, want 2", len(batches), err)
		}
		here, there := batches[0].Gpus[0], batches[1].Gpus[0]
		moved = append(moved, [2]int64{here.GetEnergyMj(), there.GetEnergyMj()})
		if here.EnergyReset || there.EnergyReset || here.Unhealthy || there.Unhealthy != (i > 0) {
			t.Errorf("scrape %d: resets %v %v, unhealthy %v %v", i, here.EnergyReset, there.EnergyReset, here.Unhealthy, there.Unhealthy)
		}
	}
	diff(t, [][2]int64{{0, 0}, {700_000, 100_000}, {700_000, 100_000}}, moved)
}

// TestOneUUIDOfTwoTargetsOnANode: the second one's counter is never taken for
// the first one's, also when the first is away.
func TestOneUUIDOfTwoTargetsOnANode(t *testing.T) {
	second := newRig(t, nil) // only its server is used
	r := newRig(t, func(c *Config) { c.Targets = append(c.Targets, Target{URL: second.url, TrustHostname: true}) })
	for i, c := range []struct {
		first, second int // 0: no row
		want          *int64
	}{
		{1_000_000, 90_000_000, nil},
		{1_700_000, 90_100_000, ptr[int64](700_000)},
		{0, 90_200_000, nil}, // another counter, first seen
		{0, 90_300_000, ptr[int64](100_000)},
		{3_800_000, 90_400_000, nil}, // what moved meanwhile has been told of in part
		{4_500_000, 90_500_000, ptr[int64](700_000)},
	} {
		rows := row("DCGM_FI_DEV_GPU_UTIL", h100, 3)
		second.setText(row(energy, h100, c.second))
		if c.first > 0 {
			rows += row(energy, h100, c.first)
		}
		g := r.gpu(rows)
		if d := cmp.Diff(c.want, g.EnergyMj); d != "" || g.EnergyReset {
			t.Errorf("scrape %d: reset %v, energy (-want +got)\n%s", i, g.EnergyReset, d)
		}
	}
}

// TestInventedNodesAreForgotten: an exporter whose Hostname labels are trusted reports another node in each slot. A
// node that it doesn't list any more isn't expected from it.
func TestInventedNodesAreForgotten(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Targets[0].TrustHostname = true })
	for i := range maxListings + 100 {
		r.batch(row("DCGM_FI_DEV_GPU_UTIL", fmt.Sprintf(`gpu="0",UUID="GPU-%d",Hostname="invented-%d"`, i, i), 3))
	}
	if got := len(r.src.shared); got > maxListings+1 {
		t.Errorf("%d nodes are kept, want at most %d", got, maxListings+1)
	}
	if _, err := r.read(row("DCGM_FI_DEV_GPU_UTIL", `gpu="0",UUID="GPU-a",Hostname="`+strings.Repeat("n", 201)+`"`, 3)); err == nil {
		t.Error("a node's name of 201 bytes is taken")
	}
}

func TestNodeThatMovedIsNotExpected(t *testing.T) {
	other := newRig(t, nil) // only its server is used
	r := newRig(t, func(c *Config) { c.Targets = append(c.Targets, Target{URL: other.url, TrustHostname: true}) })
	second := func(node string) {
		other.setText(row("DCGM_FI_DEV_GPU_UTIL", `gpu="1",UUID="GPU-z",Hostname="`+node+`"`, 3))
	}
	own := row("DCGM_FI_DEV_GPU_UTIL", h100, 3)
	second("n1")
	r.read(own)
	second("n2")
	r.skip(int(gpustate.ForgetAfter/r.slot.Length) + 1)
	r.read(own)
	other.setText("")
	batches, err := r.read(own)
	if err == nil || len(batches) != 1 || batches[0].Enumeration == wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("got %v and error %v, want a whole batch: the exporter that failed has not listed the node for a day", batches, err)
	}
}
