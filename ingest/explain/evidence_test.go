package explain

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

// scene is a random board in one slot, as a collector would tell it.
func scene(rng *rand.Rand) *wire.Batch {
	g := &wire.Gpu{
		Uuid: "GPU-x", Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: rng.IntN(2) == 0,
		PowerWatts: oneOf(rng, 70, 80, 80.5, 400), IdleWatts: oneOf(rng, 80),
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

// asKept is what tables samples and holds keep of a leaf.
func asKept(g *wire.Gpu, l *wire.Leaf) signals {
	s := signals{kept: true}
	for _, x := range [...]struct {
		name  string
		value *float64
	}{{fromSM, l.SmActive}, {fromGR, l.GrEngineActive}} {
		if s.source == "" && x.value != nil && *x.value <= 1 {
			s.source, s.a = x.name, *x.value
		}
	}
	if l.GpuUtil != nil && *l.GpuUtil <= 100 && !g.Mig {
		s.utilOK, s.util = true, *l.GpuUtil
	}
	if g.PowerWatts != nil {
		s.wattsOK, s.watts = true, *g.PowerWatts
	}
	if g.IdleWatts != nil {
		s.idleWatts = *g.IdleWatts
	}
	s.stood = g.EnergyMj != nil && *g.EnergyMj == 0
	return s
}

// TestDecideIsTheRule holds the reasons' R13 to the one that meters.
func TestDecideIsTheRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 13))
	codes := map[string]int{}
	for range 20_000 {
		b := scene(rng)
		g := b.Gpus[0]
		ids := meter.NewIdentities()
		rows := meter.Settle(b, ids)[0].Rows
		hashes := map[uint64]*wire.Leaf{}
		ids.Leaves(func(leaf meter.Leaf, hash uint64) {
			for _, l := range g.Leaves {
				if l.Id == leaf.ID {
					hashes[hash] = l
				}
			}
		})
		for _, r := range rows {
			if r.Owner == 0 {
				continue
			}
			l := hashes[r.Leaf]
			at := situation{mig: g.Mig}
			for _, o := range g.Leaves {
				if s := asKept(g, o); o != l && s.source != "" && s.a >= meter.QuietBelow {
					at.otherWorks = o.Id
				}
			}
			for _, o := range rows {
				if o.Leaf == r.Leaf && o.Owner != 0 {
					at.owners++
				}
			}
			at.covers = r.Head != 0 && r.Tail != 0
			s := asKept(g, l)
			v := decide(s, s.reading(), at)
			codes[v.code]++
			if v.bucket != r.Bucket {
				t.Fatalf("decide: got %v (%s), the rules say %v\nsignals %+v, at %+v\nboard %v", v.bucket, v.code, r.Bucket, s, at, g)
			}
		}
	}
	for _, code := range []string{
		codeActivity, codeUtil, codeShared, codeQuiet, codeMIGPower, codeMIGOther, codePartly, codeNoSignal, codeOneSignal,
		codeContrary, codeMIGBlind, codeMIGAlone,
	} {
		if codes[code] == 0 {
			t.Errorf("no scene came out as %s: the test doesn't try it", code)
		}
	}
}

// TestWhyDeduces: where the table's idle watts don't lead to the bucket, the
// batch's own must have, and the words say that those are not kept.
func TestWhyDeduces(t *testing.T) {
	s := signals{kept: true, source: fromSM, utilOK: true, wattsOK: true, watts: 95, idleWatts: 80}
	code, p, deduced := why(meter.Idle, s, situation{owners: 1, covers: true})
	if code != codeQuiet || !deduced || p == powerLoud {
		t.Errorf("idle at 95 W: got %s, %v, deduced %v; want a reading by the batch's own idle watts", code, p, deduced)
	}
	if code, _, _ := why(meter.Active, s, situation{owners: 1, covers: true}); code != codeNotKept {
		t.Errorf("active with quiet signals: got %s, want %s", code, codeNotKept)
	}
	if code, _, _ := why(meter.Active, signals{}, situation{owners: 1}); code != codeNotKept {
		t.Errorf("no sample: got %s, want %s", code, codeNotKept)
	}
}

func TestWrapKeepsNumbersWhole(t *testing.T) {
	got := Wrap("the counters moved and moved and moved and moved and moved and moved and moved and moved on 7 560 000.000 J", 2)
	want := "  the counters moved and moved and moved and moved and moved and moved and moved and moved on\n  7 560 000.000 J\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
