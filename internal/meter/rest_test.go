package meter_test

import (
	"fmt"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
)

// restDifference compares each owner's rest with the parts of the hour: an interval per
// slot without work, joined from scratch.
func (s *traced) restDifference(in *meter.HourInput, g *meter.GPUHour, untilMS int64) string {
	for _, o := range g.Owners {
		grades := map[int64]meter.RestGrade{} // by the start of an interval
		ends, amounts := map[int64]int64{}, map[int64]int64{}
		for _, p := range s.parts {
			if p.Leaf == o.Leaf && p.Owner == o.Owner && p.SliceMS > 0 {
				restOfPart(in, p, grades, ends, amounts)
			}
		}
		var want, stretch []meter.RestRun
		for _, from := range sortedStarts(grades) {
			r := meter.RestRun{FromMS: from, ToMS: ends[from], SliceMS: amounts[from], Grade: grades[from]}
			switch n := len(stretch); {
			case n > 0 && stretch[n-1].ToMS != from:
				want, stretch = append(want, longEnough(stretch, untilMS)...), []meter.RestRun{r}
			case n > 0 && stretch[n-1].Grade == r.Grade:
				stretch[n-1].ToMS = r.ToMS
				stretch[n-1].SliceMS += r.SliceMS
			default:
				stretch = append(stretch, r)
			}
		}
		want = append(want, longEnough(stretch, untilMS)...)
		s.markReleased(in, g, o, want)
		if diff := gocmp.Diff(want, append([]meter.RestRun(nil), o.Rest...)); diff != "" {
			return fmt.Sprintf("rest of owner %d on leaf %d (-parts +hour):\n%s", o.Owner, o.Leaf, diff)
		}
	}
	return ""
}

// markReleased marks a run if a part of the slot after it, in which holders are known, is not the owner's. After the
// hour there are no parts, and in a pool of unknown capacity none tells that nobody holds anything: what the hour says
// is taken.
func (s *traced) markReleased(in *meter.HourInput, g *meter.GPUHour, o meter.OwnerUse, runs []meter.RestRun) {
	said := func(r *meter.RestRun) bool {
		return slices.ContainsFunc(o.Rest, func(got meter.RestRun) bool { return got.ToMS == r.ToMS && got.Released })
	}
	for n := len(runs) - 1; n >= 0; n-- {
		r := &runs[n]
		switch {
		case n+1 < len(runs) && runs[n+1].FromMS == r.ToMS:
			next := runs[n+1]
			r.Released = next.Released && next.Grade == meter.RestUnknown && next.ToMS-next.FromMS <= in.SlotMS
		case r.ToMS >= 3_600_000:
			r.Released = said(r)
		default:
			known, holds := s.holders(in, in.StartMS+r.ToMS, o)
			r.Released = known && !holds || !known && g.Kind == meter.OpenPool && said(r)
		}
	}
}

// holders reports whether holders are known from an instant on, and whether the owner is one of them.
func (s *traced) holders(in *meter.HourInput, at int64, o meter.OwnerUse) (known, holds bool) {
	for _, p := range s.parts {
		begins := false
		for _, slot := range in.Nodes[p.Node] {
			first := slot.StartMS
			if len(slot.Observed) > 0 {
				first += slot.Observed[0]
			}
			begins = begins || slot.StartMS == p.StartMS && slot.AttributionOK && first == at
		}
		if begins && p.Bucket != meter.Unobserved && p.Why != meter.WhyLost && p.Why != meter.WhyNotListed &&
			p.Why != meter.WhyInferred {
			known = true
			holds = holds || p.Leaf == o.Leaf && p.Owner == o.Owner
		}
	}
	return known, holds
}

func restOfPart(in *meter.HourInput, p meter.Part, grades map[int64]meter.RestGrade, ends, amounts map[int64]int64) {
	grade := map[meter.Why]meter.RestGrade{
		meter.WhyQuiet: meter.RestProven, meter.WhyParked: meter.RestProven, meter.WhyOtherWorks: meter.RestProven,
		meter.WhyOneSignal: meter.RestSuspected, meter.WhyPartly: meter.RestUnknown, meter.WhyNoSignal: meter.RestUnknown,
		meter.WhyContrary: meter.RestUnknown, meter.WhyMIGBlind: meter.RestUnknown, meter.WhyImported: meter.RestUnknown,
		meter.WhyMIGAlone: meter.RestUnknown,
	}[p.Why]
	if grade == 0 {
		return
	}
	at := p.StartMS - in.StartMS
	for _, slot := range in.Nodes[p.Node] {
		if slot.StartMS != p.StartMS {
			continue
		}
		observed := slot.Observed
		if len(observed) == 0 {
			observed = []int64{0, in.SlotMS}
		}
		all, before, given := int64(0), int64(0), int64(0)
		for i := 0; i < len(observed); i += 2 {
			all += observed[i+1] - observed[i]
		}
		for i := 0; i < len(observed); i += 2 {
			from := at + observed[i]
			grades[from], ends[from] = grade, at+observed[i+1]
			amounts[from] = (p.SliceMS - given) * (observed[i+1] - observed[i]) / (all - before)
			before, given = before+observed[i+1]-observed[i], given+amounts[from]
		}
	}
}

func sortedStarts(of map[int64]meter.RestGrade) (starts []int64) {
	for from := range of {
		starts = append(starts, from)
	}
	slices.Sort(starts)
	return starts
}

func longEnough(stretch []meter.RestRun, untilMS int64) []meter.RestRun {
	if len(stretch) == 0 {
		return nil
	}
	from, to := stretch[0].FromMS, stretch[len(stretch)-1].ToMS
	if from == 0 || to >= untilMS || to-from >= 5*60*1000 {
		return stretch
	}
	return nil
}
