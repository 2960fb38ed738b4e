package imports

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

const (
	liveStart = 1_772_323_200_000 // 2026-03-01T00:00:00Z
	liveSlot  = 60_000
)

// gapOf is a gap of node n before which it had board g0 whole, g1 cut into
// MIG-1 of three slices and MIG-2 of two, and g2 lost.
func gapOf(from, to int64) *gap {
	g := &gap{interval: interval{liveStart + from, liveStart + to}, targets: map[string]*target{}}
	g.lay([]layoutRow{
		{GPU: "g0", Model: "H", Slices: 7, Leaf: 1},
		{GPU: "g1", Model: "H", Slices: 7, Leaf: 2},
		{GPU: "g1", Model: "H", Slices: 7, Leaf: 3},
		{GPU: "g1", Model: "H", Slices: 7},
		{GPU: "g2", Model: "H", Slices: 7},
		{GPU: "g3", Slices: 7, Leaf: 1},
		{GPU: "g3", Slices: 7, Leaf: 2},
		{GPU: "pool", Slices: 8000, Kind: uint8(meter.Pool), Leaf: 1},
	}, map[uint64]tables.Leaf{
		1: {ID: 1, Leaf: "gpu", Slices: 7, GI: -1, CI: -1},
		2: {ID: 2, Leaf: "gi1", Slices: 3, Profile: "3g.40gb", GI: 1, CI: -1, MIGUUID: "MIG-1"},
		3: {ID: 3, Leaf: "gi2", Slices: 2, Profile: "2g.20gb", GI: 2, CI: 0, MIGUUID: "MIG-2"},
	})
	return g
}

// newLive is a book of a cluster whose collectors left gaps on node n.
func newLive(t *testing.T, gaps ...*gap) *book {
	b := newBook(t)
	b.state.live = &live{
		slotMS: liveSlot, why: "collectors measure it", untilMS: liveStart + 100*meter.HourMS,
		gaps: map[string][]*gap{"n": gaps},
	}
	return b
}

func (b *book) fill(records ...Record) (*Plan, int) {
	b.t.Helper()
	return b.take(records...)
}

func named(device, job string, fromMS, toMS int64) Record {
	return Record{
		Job: job, Account: "a", Node: "n", Devices: []string{device}, MilliGPUs: 1000,
		StartMS: liveStart + fromMS, EndMS: liveStart + toMS,
	}
}

func reasons(lines []BadLine) (out []string) {
	for _, l := range lines {
		out = append(out, l.Reason)
	}
	return out
}

func TestFillTellsWhatCannotBeFilled(t *testing.T) {
	const day = 24 * meter.HourMS
	long := gapOf(0, 2*day)
	b := newLive(t, long)
	b.state.live.moved = map[string][]listing{"g1": {
		{"n", liveStart - 5},
		{"m", liveStart - 5},
		{"m", liveStart + 10*meter.HourMS},
	}}
	for name, c := range map[string]struct {
		record Record
		want   string
		filled int64 // ms
	}{
		"a day after it was listed": {named("g0", "1", 0, 2*day), "g0 is not in the inventory of node n then", day},
		"seen on another node": {
			named("MIG-2", "2", 0, 11*meter.HourMS),
			"MIG-2 is not in the inventory of node n then", 10 * meter.HourMS,
		},
		"a board that was cut": {
			named("g1", "3", 0, 1000),
			"g1 is partitioned into 2 MIG instances there: name one by its MIG UUID", 0,
		},
		"a board that was lost":      {named("g2", "4", 0, 1000), "g2 was lost, or had no leaf", 0},
		"cut anew just before":       {named("g3", "5", 0, 1000), "g3 was repartitioned in the last slot before", 0},
		"a pool":                     {named("pool", "6", 0, 1000), "pool is a pool", 0},
		"a board that nobody listed": {named("g9", "7", 0, 1000), "g9 is not listed in the last batch of node n", 0},
		"no GPU": {Record{
			Job: "8", Node: "n", MilliGPUs: 1000, StartMS: liveStart,
			EndMS: liveStart + 1,
		}, "8 names no GPU", 0},
		"no node": {
			Record{Job: "9", Devices: []string{"g0"}, MilliGPUs: 1000, StartMS: liveStart, EndMS: liveStart + 1},
			"9 names GPU g0, but no node", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.t, b.killed = t, true
			p, _ := b.fill(c.record, named("g0", "0", 3*day, 3*day+1))
			if got := reasons(p.Bad); len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("refused %q, want %q", got, c.want)
			}
			var filled int64
			for _, w := range b.wins {
				for _, g := range w.Gpus {
					for _, h := range g.Holds {
						from, to := wire.Span(h.FromMs, h.ToMs, w.SlotMs)
						filled += to - from
					}
				}
			}
			clear(b.wins)
			if filled != c.filled {
				t.Errorf("%d ms filled, want %d", filled, c.filled)
			}
		})
	}
}

func TestFillWithoutGPUsIsRefused(t *testing.T) {
	b := newLive(t)
	o := b.o
	if _, err := NewPlan(&o, b.state,
		[]Record{{Job: "1", MilliGPUs: 2000, StartMS: liveStart, EndMS: liveStart + 1}}); err == nil ||
		!strings.Contains(err.Error(), "collectors measure it") {
		t.Errorf("a file that names no GPU: %v, want it refused", err)
	}
}

// TestFillKeepsIdentity: a fill has the leaf of the last batch before the gap,
// and says nothing that records can't tell.
func TestFillKeepsIdentity(t *testing.T) {
	b := newLive(t, gapOf(0, meter.HourMS))
	b.fill(named("MIG-1", "1", 500, 90_000), named("MIG-2", "2", 60_000, 120_000))
	second := b.wins[nodeHour{"n", liveStart + liveSlot}]
	if !second.Fill || wire.Rev(second) != wire.FillRev || second.Origin != wire.Origin_ORIGIN_IMPORT ||
		len(second.Gpus) != 1 {
		t.Fatalf("fill %v, want one of rank 0 with one board", second)
	}
	g := second.Gpus[0]
	if len(g.Leaves) != 2 || g.Leaves[0].Id != "gi1" || g.Leaves[0].GetGi() != 1 || g.Leaves[0].Ci != nil ||
		g.Leaves[1].GetCi() != 0 || g.Leaves[1].Ci == nil || !g.Mig || g.Slices != 7 {
		t.Errorf("board %v, want its two instances", g)
	}
	if from, to := wire.Span(g.Holds[0].FromMs, g.Holds[0].ToMs, liveSlot); from != 0 || to != 30_000 ||
		g.Holds[1].FromMs != nil || g.Holds[1].ToMs != nil {
		t.Errorf("holds %v, want the first 30 s of gi1 and all of gi2", g.Holds)
	}
}

// TestFillProperty: each ms of a record is filled, skipped or refused, whatever
// gaps there are; the same records again say nothing; a correction leaves no
// stale holder behind.
func TestFillProperty(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var gaps []*gap
		for at := int64(0); at < 170; {
			from := at + 1 + r.Int64N(30)
			at = from + 1 + r.Int64N(30)
			gaps = append(gaps, gapOf(from*liveSlot, at*liveSlot))
		}
		b := newLive(t, gaps...)
		week := func() (records []Record) {
			for i, device := range []string{"g0", "MIG-1", "MIG-2"} {
				at := int64(0)
				for j := range 4 {
					at += r.Int64N(40 * liveSlot)
					end := at + 1 + r.Int64N(40*liveSlot)
					records = append(records, named(device, string(rune('a'+4*i+j)), at, end))
					at = end
				}
			}
			return records
		}
		for range 2 {
			records := week()
			b.o.WindowFromMS, b.o.WindowToMS, b.o.NowMS = liveStart, liveStart+12*meter.HourMS, b.o.NowMS+1
			b.fill(records...)
			again, sent := b.fill(records...)
			if sent != 0 {
				t.Fatalf("seed %d: the same records again sent %d batches", seed, sent)
			}
			want := map[string]int64{}
			for _, rec := range records {
				for _, g := range gaps {
					want[rec.Job+rec.Devices[0]] += max(0, min(rec.EndMS, g.to)-max(rec.StartMS, g.from))
				}
			}
			got := map[string]int64{}
			for _, w := range b.wins {
				for _, g := range w.Gpus {
					for _, h := range g.Holds {
						from, to := wire.Span(h.FromMs, h.ToMs, w.SlotMs)
						got[h.Owner.Job+map[string]string{"gpu": "g0", "gi1": "MIG-1", "gi2": "MIG-2"}[h.Leaf]] += to - from
					}
				}
			}
			sliceMS, slices := int64(0), map[string]int64{"g0": 7, "MIG-1": 3, "MIG-2": 2}
			for key, ms := range want {
				sliceMS += ms * slices[key[1:]]
				if ms == 0 {
					delete(want, key)
				}
			}
			if again.Filled.SliceMS[7] != sliceMS {
				t.Fatalf("seed %d: %d slice-ms are told to be filled, want %d", seed, again.Filled.SliceMS[7], sliceMS)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: ms filled by record (-want +got):\n%s", seed, diff)
			}
		}
	}
}
