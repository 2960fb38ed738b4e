package meter_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// traced sums the parts of one GPU-hour as its figures, slot by slot.
type traced struct {
	sum   meter.GPUHour
	slots map[int64]int64 // slice-ms
	parts []meter.Part
}

func (s *traced) add(p meter.Part) {
	if s.slots == nil {
		s.slots = map[int64]int64{}
	}
	s.slots[p.StartMS] += p.SliceMS
	s.parts = append(s.parts, p)
	s.sum.UnattributedMJ += p.UnattributedMJ
	if p.Owner == 0 {
		s.sum.PlatformEnergyMJ += p.EnergyMJ
	}
	switch p.Bucket {
	case meter.Free:
		s.sum.Free += p.SliceMS
	case meter.Stranded:
		s.sum.Stranded += p.SliceMS
	case meter.Unhealthy:
		s.sum.Unhealthy += p.SliceMS
	case meter.Unobserved:
		s.sum.Unobserved += p.SliceMS
		if p.Why == meter.WhyAttribution {
			s.sum.UnobservedAttribution += p.SliceMS
		}
	default:
		i := slices.IndexFunc(s.sum.Owners, func(o meter.OwnerUse) bool { return o.Leaf == p.Leaf && o.Owner == p.Owner })
		if i < 0 {
			i = len(s.sum.Owners)
			s.sum.Owners = append(s.sum.Owners, meter.OwnerUse{Leaf: p.Leaf, Owner: p.Owner})
		}
		o := &s.sum.Owners[i]
		o.Work, o.EnergyMJ = o.Work+p.Work, o.EnergyMJ+p.EnergyMJ
		*map[meter.Bucket]*int64{meter.Active: &o.Active, meter.Idle: &o.Idle, meter.Unproven: &o.Unproven}[p.Bucket] += p.SliceMS
		if p.Why == meter.WhyInferred {
			o.Inferred += p.SliceMS
		}
		if p.Why == meter.WhyParked {
			o.Parked += p.SliceMS
		}
	}
}

// figures are the hour's without what a part doesn't tell, and without owners of
// whom nothing is counted.
func figures(g meter.GPUHour) meter.GPUHour {
	g.GPU, g.Node, g.Model, g.Slices, g.Kind, g.PresentMS = "", "", "", 0, 0, 0
	g.Owners = slices.Clone(g.Owners)
	for i := range g.Owners {
		g.Owners[i].Rest = nil // TestRestIsExact
	}
	g.Owners = slices.DeleteFunc(g.Owners, func(o meter.OwnerUse) bool {
		return gocmp.Equal(o, meter.OwnerUse{Leaf: o.Leaf, Owner: o.Owner})
	})
	slices.SortFunc(g.Owners, func(a, b meter.OwnerUse) int {
		return cmp.Or(cmp.Compare(a.Leaf, b.Leaf), cmp.Compare(a.Owner, b.Owner))
	})
	if len(g.Owners) == 0 {
		g.Owners = nil
	}
	return g
}

// bucketsOf are the buckets that a reason may stand for.
var bucketsOf = map[meter.Why]meter.Bucket{
	meter.WhyLost: meter.Unhealthy, meter.WhyFlagged: meter.Unhealthy, meter.WhyNotListed: meter.Unhealthy,
	meter.WhyInferred: meter.Unproven, meter.WhyRecords: meter.Unproven, meter.WhyShared: meter.Unproven, meter.WhyPartly: meter.Unproven,
	meter.WhyNoSignal: meter.Unproven, meter.WhyOneSignal: meter.Unproven, meter.WhyContrary: meter.Unproven,
	meter.WhyMIGBlind: meter.Unproven, meter.WhyImported: meter.Unproven, meter.WhyMIGAlone: meter.Unproven,
	meter.WhyActivity: meter.Active, meter.WhyUtil: meter.Active,
	meter.WhyQuiet: meter.Idle, meter.WhyParked: meter.Idle, meter.WhyOtherWorks: meter.Idle,
	meter.WhyNotHeld: meter.Free, meter.WhyUnownedWork: meter.Free, meter.WhyPoolFree: meter.Free,
	meter.WhyUncovered: meter.Stranded, meter.WhyFewer: meter.Stranded,
	meter.WhyAttribution: meter.Unobserved, meter.WhyExcess: meter.Unobserved, meter.WhyListed: meter.Unobserved, meter.WhyCapacity: meter.Unobserved,
	meter.WhyNoBatch: meter.Unobserved, meter.WhyUnlisted: meter.Unobserved, meter.WhyNothing: meter.Unobserved, meter.WhyPart: meter.Unobserved,
}

// TestPartsSumToTheHour: what Trace shows sums to the GPU-hour in every figure, to
// slices × present time in every slot, and each part's reason fits its bucket.
// Every reason and every way to split energy occurs.
func TestPartsSumToTheHour(t *testing.T) {
	seen := map[fmt.Stringer]int{}
	cases := *clusters
	if testing.Short() {
		cases = min(cases, 1000)
	}
	for seed := *firstSeed; seed < *firstSeed+cases; seed++ {
		batches := randomBatches(seed)
		if diff := traceDifference(t, batches, randomRetirements(seed, batches), seen); diff != "" {
			t.Fatalf("-cluster-seed=%d: %s", seed, diff)
		}
	}
	if cases < 1000 {
		return
	}
	for why := range bucketsOf {
		if seen[why] == 0 && why != meter.WhyRecords && why != meter.WhyImported { // no random cluster is imported
			t.Errorf("reason %s never occurs in %d clusters", why, *clusters)
		}
	}
	for how := meter.EnergyNone; how <= meter.EnergyReset; how++ {
		if seen[how] == 0 {
			t.Errorf("energy split %s never occurs in %d clusters", how, *clusters)
		}
	}
	for gap := meter.GapFirst; gap <= meter.GapOtherwise; gap++ {
		if seen[gap] == 0 {
			t.Errorf("gap reason %s never occurs in %d clusters", gap, *clusters)
		}
	}
}

func traceDifference(t *testing.T, batches []*wire.Batch, retirements map[string][]int64, seen map[fmt.Stringer]int) string {
	t.Helper()
	in := newClusterInput(t, batches)
	in.Retirements = retirements
	first := slices.MinFunc(batches, byStart).SlotStartMs
	inv, plain := meter.NewInventory(nil), meter.NewInventory(nil)
	for start := first - first%meter.HourMS; start < in.WatermarkMS; start += meter.HourMS {
		in.StartMS = start
		untraced, err := meter.Hour(in.around(start), plain)
		if err != nil {
			t.Fatal(err)
		}
		parts, misfit := map[string]*traced{}, ""
		around := in.around(start)
		around.Trace = func(gpu string, p meter.Part) {
			if parts[gpu] == nil {
				parts[gpu] = &traced{}
			}
			parts[gpu].add(p)
			seen[p.Why]++
			seen[p.EnergyWhy]++
			seen[p.Gap]++
			if b, ok := bucketsOf[p.Why]; p.SliceMS != 0 && (!ok || b != p.Bucket) {
				misfit = fmt.Sprintf("reason %s for %s", p.Why, p.Bucket)
			}
		}
		res, err := meter.Hour(around, inv)
		if err != nil {
			t.Fatal(err)
		}
		if misfit != "" {
			return misfit
		}
		if diff := gocmp.Diff(untraced.GPUs, res.GPUs); diff != "" {
			return "a traced hour differs:\n" + diff
		}
		for _, g := range res.GPUs {
			p := parts[g.GPU]
			if p == nil {
				return "no part of " + g.GPU
			}
			if diff := gocmp.Diff(figures(g), figures(p.sum)); diff != "" {
				return fmt.Sprintf("%s at %d: parts don't sum to the hour (-hour +parts):\n%s", g.GPU, start, diff)
			}
			if diff := p.restDifference(&around, &g, res.UntilMS); diff != "" {
				return fmt.Sprintf("%s at %d: %s", g.GPU, start, diff)
			}
			for at, sliceMS := range p.slots {
				if most := int64(g.Slices) * in.SlotMS; sliceMS < 0 || sliceMS > most {
					return fmt.Sprintf("%s: parts of the slot at %d sum to %d of %d slice-ms", g.GPU, at, sliceMS, most)
				}
			}
		}
	}
	return ""
}
