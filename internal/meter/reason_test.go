package meter_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// oneOf picks a value, or nil.
func oneOf(rng *rand.Rand, values ...float64) *float64 {
	if i := rng.IntN(len(values) + 1); i < len(values) {
		return &values[i]
	}
	return nil
}

// randomEvidence is a random board in one slot, at the edges of all thresholds.
func randomEvidence(rng *rand.Rand) *wire.Batch {
	g := &wire.Gpu{
		Uuid: "GPU-x", Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: rng.IntN(2) == 0,
		PowerWatts: oneOf(rng, 70, 80, 80.5, 140, 140.5, 400), IdleWatts: oneOf(rng, 80),
	}
	if rng.IntN(3) == 0 {
		energy := int64(rng.IntN(2) * 700_000)
		g.EnergyMj = &energy
	}
	leaves := 1
	if g.Mig {
		leaves = 1 + rng.IntN(2)
	}
	for i := range leaves {
		l := &wire.Leaf{
			Id: string(rune('a' + i)), Slices: 3, SmActive: oneOf(rng, 0, 0.004, 0.0049999, 0.005, 0.6, 1.2), GrEngineActive: oneOf(rng, 0, 0.3),
			GpuUtil: oneOf(rng, 0, 1, 100, 4294967295),
		}
		if !g.Mig {
			l.Slices = 7
		}
		g.Leaves = append(g.Leaves, l)
		for o := range rng.IntN(3) {
			h := &wire.Hold{Leaf: l.Id, Owner: &wire.Owner{Namespace: string(rune('p' + o))}}
			if rng.IntN(4) == 0 {
				to := int64(4000)
				h.ToMs = &to
			}
			g.Holds = append(g.Holds, h)
		}
	}
	return &wire.Batch{Format: 1, Cluster: "k", Node: "n", SlotMs: 10_000, Gpus: []*wire.Gpu{g}}
}

// slowWhy reads R13 aloud for one holder of a leaf.
func slowWhy(g *wire.Gpu, l *wire.Leaf, owners int, covers bool) meter.Why {
	_, aValid := slowActivity(l)
	u, uValid := slowUtilisation(g, l)
	pQuiet, pValid := slowPower(g)
	valid, othersWork := 0, false
	for _, v := range []bool{aValid, uValid, pValid} {
		if v {
			valid++
		}
	}
	for _, other := range g.Leaves {
		if a, ok := slowActivity(other); ok && a >= 0.005 && other.Id != l.Id {
			othersWork = true
		}
	}
	switch {
	case slowWorks(g, l) && owners > 1:
		return meter.WhyShared
	case slowWorks(g, l) && aValid:
		return meter.WhyActivity
	case slowWorks(g, l):
		return meter.WhyUtil
	case slowRests(g, l) && !covers:
		return meter.WhyPartly
	case g.Mig && !aValid:
		return meter.WhyMIGBlind
	case slowRests(g, l) && g.Mig && !(pValid && *g.PowerWatts <= *g.IdleWatts) && othersWork:
		return meter.WhyOtherWorks
	case slowRests(g, l) && pValid && pQuiet && *g.PowerWatts > *g.IdleWatts:
		return meter.WhyParked
	case slowRests(g, l):
		return meter.WhyQuiet
	case g.Mig:
		return meter.WhyMIGAlone
	case uValid && u > 0 || pValid && !pQuiet:
		return meter.WhyContrary
	case valid == 1:
		return meter.WhyOneSignal
	}
	return meter.WhyNoSignal
}

// TestReasonsOfEvidence holds the stored reasons to the rule read aloud.
func TestReasonsOfEvidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 13))
	reasons := map[meter.Why]int{}
	for range 100_000 {
		b := randomEvidence(rng)
		g := b.Gpus[0]
		ids := meter.NewIdentities()
		rows := meter.Classify(b, ids)[0].Rows
		leaves := map[uint64]*wire.Leaf{}
		ids.Leaves(func(leaf meter.Leaf, hash uint64) {
			for _, l := range g.Leaves {
				if l.Id == leaf.ID {
					leaves[hash] = l
				}
			}
		})
		owners := map[uint64]int{}
		for _, r := range rows {
			if r.Owner != 0 {
				owners[r.Leaf]++
			}
		}
		for _, r := range rows {
			want := meter.WhyUncovered
			switch l := leaves[r.Leaf]; {
			case r.Owner != 0:
				want = slowWhy(g, l, owners[r.Leaf], r.Tail != 0) // all holds begin with the slot
			case r.Bucket == meter.Free && owners[r.Leaf] == 0 && slowWorks(g, l):
				want = meter.WhyUnownedWork
			case r.Bucket == meter.Free:
				want = meter.WhyNotHeld
			}
			if reasons[want]++; r.Why != want {
				t.Fatalf("%s of leaf %d: reason %s, want %s\n%v", r.Bucket, r.Leaf, r.Why, want, g)
			}
		}
	}
	for why := meter.WhyActivity; why <= meter.WhyUncovered; why++ {
		if reasons[why] == 0 && why != meter.WhyPoolFree {
			t.Errorf("reason %s never occurs", why)
		}
	}
}
