package idle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// slotState is what a slot of a random timeline is.
type slotState int

const (
	missing slotState = iota // no batch
	absent                   // nobody holds the leaf
	active
	idle
	parked
	quiet // one signal
	blind // no signal
	states
)

// row is the slot's row; nil: none but the platform's.
func (s slotState) row(slotMS int64) *meter.Row {
	r := &meter.Row{Leaf: 1, Owner: 1, SliceMS: 7 * slotMS}
	switch s {
	case active:
		r.Bucket, r.Why = meter.Active, meter.WhyActivity
	case idle:
		r.Bucket, r.Why = meter.Idle, meter.WhyQuiet
	case parked:
		r.Bucket, r.Why = meter.Idle, meter.WhyParked
	case quiet:
		r.Bucket, r.Why = meter.Unproven, meter.WhyOneSignal
	case blind:
		r.Bucket, r.Why = meter.Unproven, meter.WhyNoSignal
	default:
		return nil
	}
	return r
}

// randomSlots are stretches of states, of which many last about as long as the thresholds.
func randomSlots(rng *rand.Rand, n int, slot time.Duration) []slotState {
	var out []slotState
	for len(out) < n {
		s := slotState(rng.IntN(int(states)))
		if rng.IntN(2) == 0 {
			s = idle
		}
		length := time.Duration(rng.ExpFloat64() * float64([]time.Duration{
			time.Minute, 20 * time.Minute, time.Hour,
			3 * time.Hour,
		}[rng.IntN(4)]))
		for range 1 + int(length/slot) {
			out = append(out, s)
		}
	}
	return out[:n]
}

// ledgerHours computes the hours of the one GPU and its one owner.
func ledgerHours(t *testing.T, slots []slotState, slotMS int64) (hours []Hour) {
	t.Helper()
	from := monday.UnixMilli()
	inv := meter.NewInventory(nil)
	in := meter.HourInput{
		WatermarkMS: from + int64(len(slots))*slotMS, SlotMS: slotMS,
		LeafSlices: func(uint64) int { return 7 }, OwnerID: func(uint64) string { return "o" },
	}
	var node []meter.NodeSlot
	var records []meter.Record
	for i, s := range slots {
		if s == missing {
			continue
		}
		at := from + int64(i)*slotMS
		node = append(node, meter.NodeSlot{StartMS: at, Complete: true, AttributionOK: true})
		r := meter.Record{StartMS: at, Slices: 7, Model: "NVIDIA H100 80GB HBM3"}
		if row := s.row(slotMS); row != nil {
			r.Rows = []meter.Row{*row}
		} else {
			r.Rows = []meter.Row{{Leaf: 1, Bucket: meter.Free, Why: meter.WhyNotHeld, SliceMS: 7 * slotMS}}
		}
		records = append(records, r)
	}
	for start := from; start < in.WatermarkMS; start += meter.HourMS {
		in.StartMS = start
		in.Nodes = map[string][]meter.NodeSlot{"n": slices.DeleteFunc(slices.Clone(node), func(s meter.NodeSlot) bool {
			return s.StartMS < start-meter.GapMaxMS || s.StartMS >= start+meter.HourMS+meter.GapMaxMS
		})}
		in.GPUs = map[string]map[string][]meter.Record{
			"g": {"n": slices.DeleteFunc(slices.Clone(records), func(r meter.Record) bool {
				return r.StartMS < start-meter.GapMaxMS || r.StartMS >= start+meter.HourMS+meter.GapMaxMS
			})},
		}
		res, err := meter.Hour(in, inv)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range res.GPUs {
			for _, o := range g.Owners {
				hours = append(hours, Hour{
					Start: time.UnixMilli(start).UTC(), UntilMS: meter.HourMS, Model: g.Model, Slices: 7, Active: uint64(o.Active), Idle: uint64(o.Idle),
					Parked: uint64(o.Parked), Rest: o.Rest,
				})
			}
		}
	}
	return hours
}

// counted is the independent count: slot by slot, over the whole timeline.
func counted(slots []slotState, slot time.Duration, config Config) (runs []string) {
	grade := func(s slotState) int {
		switch s {
		case idle, parked:
			return 3
		case quiet:
			return 2
		case blind:
			return 1
		}
		return 0
	}
	for i := 0; i < len(slots); {
		g := grade(slots[i])
		if g < 2 {
			i++
			continue
		}
		last, rest := i, 0
		for j := i; j < len(slots) && grade(slots[j]) > 0; j++ {
			if grade(slots[j]) == g {
				rest, last = rest+1, j
			} else if g != 3 || time.Duration(j-last)*slot > config.Bridge {
				break
			}
		}
		if time.Duration(rest)*slot >= config.MinDuration {
			runs = append(runs,
				fmt.Sprintf("%s to %s, %s of grade %d, %d slice-ms", monday.Add(time.Duration(i)*slot).Format("02T15:04:05"),
					monday.Add(time.Duration(last+1)*slot).Format("02T15:04:05"), time.Duration(rest)*slot, g,
					7*int64(rest)*slot.Milliseconds()))
		}
		i = last + 1
	}
	return runs
}

// TestRunsEqualAnIndependentCount of random timelines, run by run, to the slot.
func TestRunsEqualAnIndependentCount(t *testing.T) {
	timelines := uint64(10_000)
	if testing.Short() {
		timelines = 600
	}
	found := 0
	for seed := range timelines {
		rng := rand.New(rand.NewPCG(seed, 13))
		slot := []time.Duration{10 * time.Second, time.Minute}[seed%2]
		config := Config{
			MinDuration: []time.Duration{15, 30, 60}[rng.IntN(3)] * time.Minute,
			Bridge:      []time.Duration{0, 0, 2, 10}[rng.IntN(4)] * time.Minute,
		}
		slots := randomSlots(rng, int(8*time.Hour/slot), slot)
		var got []string
		take := func(r Run) {
			var sliceMS uint64
			for _, p := range r.Parts {
				sliceMS += p.SliceMS
			}
			got = append(got, fmt.Sprintf("%s to %s, %s of grade %d, %d slice-ms", r.From.Format("02T15:04:05"),
				r.To.Format("02T15:04:05"), r.Rest, r.Grade, sliceMS))
		}
		f := New(config, take)
		for _, h := range ledgerHours(t, slots, slot.Milliseconds()) {
			if err := f.Add(Series{GPU: "g"}, &h); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range f.Unfinished(nil) {
			take(r)
		}
		want := counted(slots, slot, config)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, slots of %s, %+v: runs (-want +got):\n%s", seed, slot, config, diff)
		}
		found += len(want)
	}
	t.Logf("%d runs in %d timelines", found, timelines)
	if found < int(timelines) {
		t.Errorf("%d runs in %d timelines: too few to compare", found, timelines)
	}
}

// TestHowARunEnds: a release needs a slot in which the leaf was seen without its owner.
func TestHowARunEnds(t *testing.T) {
	for name, c := range map[string]struct {
		after []slotState
		want  string // cause
		open  bool
	}{
		"the hold ends":                   {[]slotState{absent}, Finished, false},
		"the hold ends within a slot":     {[]slotState{blind, absent}, Finished, false},
		"the node falls silent":           {[]slotState{missing}, Resting, false},
		"work begins":                     {[]slotState{active}, Resting, false},
		"the ledger has no later hour":    {nil, Resting, true},
		"it ends and the hold comes back": {[]slotState{absent, active}, Finished, false},
	} {
		t.Run(name, func(t *testing.T) {
			// The run ends with an hour, or in the middle of one.
			for _, minutes := range []int{120, 150} {
				slots := slices.Concat(slices.Repeat([]slotState{active}, 10), slices.Repeat([]slotState{idle}, minutes-10), c.after)
				if c.after != nil {
					slots = append(slots, slices.Repeat([]slotState{c.after[len(c.after)-1]}, 180-len(slots))...)
				}
				var runs []Run
				f := New(DefaultConfig(), func(r Run) { runs = append(runs, r) })
				for _, h := range ledgerHours(t, slots, 60_000) {
					if len(slots) < 180 {
						h.UntilMS = min(h.UntilMS, int64(len(slots))*60_000-h.Start.Sub(monday).Milliseconds())
					}
					if err := f.Add(Series{Cluster: "c", GPU: "g"}, &h); err != nil {
						t.Fatal(err)
					}
				}
				runs = append(runs, f.Unfinished(map[string]time.Time{"c": monday.Add(time.Duration(len(slots)-1) * time.Minute).Truncate(time.Hour)})...)
				if len(runs) != 1 || runs[0].cause() != c.want || runs[0].Open != c.open {
					t.Errorf("%d minutes: got %+v, want one run, %s, open %v", minutes, runs, c.want, c.open)
				}
			}
		})
	}
}
