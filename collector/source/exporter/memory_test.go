package exporter

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/wire"
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
	r.clk.Advance(forgetAfter + 1)
	r.gpu(row(energy, a100, 1000))
	if len(r.src.memory) != 1 {
		t.Errorf("%d GPUs remembered, want the listed one alone", len(r.src.memory))
	}
}
