package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/meter"
)

// reasons are the texts for the reasons of buckets; short is for the summary.
var reasons = map[meter.Why]struct{ short, long string }{
	meter.WhyActivity: {"the engine was active", "work was seen: the engine's activity was at least 0.005"},
	meter.WhyUtil:     {"GPU_UTIL was above 0", "work was seen: there was no activity metric, but GPU_UTIL was above 0"},
	meter.WhyShared: {
		"several owners shared the leaf while it worked",
		"work was seen, but several owners shared the leaf, and nothing shows whose work it was",
	},
	meter.WhyQuiet: {
		"no engine worked",
		"no work: at least two signals were valid and all were quiet, and the owner held the leaf for all of the observed " +
			"time",
	},
	meter.WhyParked: {
		"only a CUDA context was open",
		"no work: activity and utilisation were quiet, and power was at most 60 W above idle, which is what an open CUDA " +
			"context takes",
	},
	meter.WhyOtherWorks: {
		"this instance was quiet while another one worked",
		"no work on this MIG instance: its activity was quiet while another instance worked, which shows that profiling " +
			"metrics were collected",
	},
	meter.WhyPartly: {
		"it was held for only a part of a slot",
		"no work was seen, but the leaf was held for only a part of the slot, and the signals are for the whole slot",
	},
	meter.WhyNoSignal:  {"there was no signal", "no signal was valid"},
	meter.WhyOneSignal: {"there was only one signal", "only one signal was valid; it was quiet, but idle needs two"},
	meter.WhyContrary:  {"the signals contradict each other", "no signal proves work, but not all signals were quiet"},
	meter.WhyMIGBlind: {
		"there was no activity metric of this MIG instance",
		"there was no activity metric, and on a MIG instance no other signal is proof",
	},
	meter.WhyMIGAlone: {
		"nothing shows that profiling metrics were collected",
		"the activity of this MIG instance was quiet, but power was not and no other instance worked: profiling metrics " +
			"may " +
			"not have been collected",
	},
	meter.WhyImported: {
		"imported allocations contain no evidence",
		"imported from allocation records, which contain no evidence of work or idleness: unproven",
	},
	meter.WhyRecords: {
		"only allocation records cover it",
		"no collector reported these slots; allocation records show who held it, and time that they don't cover stays " +
			"unobserved",
	},
	meter.WhyInferred: {
		"it was inferred over a gap of at most 30 s",
		"a gap of at most 30 s between the same holders on both sides: inferred with the same shares",
	},
	meter.WhyNotHeld: {"nobody held it", "observed, and nobody held it"},
	meter.WhyUnownedWork: {
		"there was work without an allocation",
		"the engine worked, but nobody held it: it stays free; find out whose work it was",
	},
	meter.WhyPoolFree:  {"no allocation covered it", "no allocation covered this part of the pool"},
	meter.WhyUncovered: {"no MIG instance covered it", "no leaf (MIG instance or whole GPU) covered these slices"},
	meter.WhyFewer: {
		"the GPU had fewer slices than the hour began with",
		"the slot has fewer slices than the hour began with",
	},
	meter.WhyFlagged:     {"it was flagged unhealthy", "flagged unhealthy, and no work was seen, so no tenant pays"},
	meter.WhyLost:        {"the GPU was lost", "its node reports that it fell off the bus"},
	meter.WhyNotListed:   {"its node no longer listed it", "missing from its node's complete list of GPUs: lost"},
	meter.WhyAttribution: {"its owners are unknown", "the collector could not read who held it"},
	meter.WhyExcess: {
		"the batch contradicts the GPU's size",
		"the batch lists more slices than the GPU had in that hour, or another kind of entry, so nothing in it is counted",
	},
	meter.WhyListed: {"it was listed without any time", "the batch lists the GPU but reports no time for it"},
	meter.WhyCapacity: {
		"the pool's capacity is unknown",
		"the pool's capacity is unknown, so time that no allocation covers can't be called free",
	},
	meter.WhyNoBatch: {"there was no batch", "the node sent no batch for these slots"},
	meter.WhyUnlisted: {
		"the batch didn't list the GPU",
		"the batch lists only a part of the node's GPUs, and not this one",
	},
	meter.WhyNothing: {"the collector observed nothing", "the collector reports that it observed no part of the slot"},
	meter.WhyPart: {
		"a part of the slot was not observed",
		"the collector observed a part of the slot; this is the rest",
	},
}

// gaps are the texts for why unobserved time was not inferred from the slots around
// it.
var gaps = map[meter.GapWhy]string{
	meter.GapFirst:     "not inferred: nothing is known before the gap",
	meter.GapLast:      "not inferred: nothing is known after the gap",
	meter.GapLong:      "not inferred: the gap is longer than 30 s",
	meter.GapHolders:   "not inferred: the holders or the leaves differ before and after the gap",
	meter.GapNobody:    "not inferred: nobody held it on either side of the gap, and free time is never inferred",
	meter.GapMoved:     "not inferred: the GPU went to another node",
	meter.GapKnown:     "not inferred: the GPU was lost, or its batch contradicted its size, in the gap",
	meter.GapRetired:   "not inferred: the GPU was retired in the gap",
	meter.GapOtherwise: "the rest of an inferred gap: not held, or listed differently",
}

// splits are the texts for how energy was split.
var splits = map[meter.EnergyWhy]string{
	meter.EnergyByWork: "the model's idle power by slice-ms over all observed time, the rest by slice-ms × " +
		"activity over held time",
	meter.EnergyByTime: "the model's idle power by slice-ms over all observed time, the rest by slice-ms over " +
		"held time, because an activity was unknown or all were 0",
	meter.EnergyNotHeld: "the model's idle power by slice-ms over all observed time, the rest to the platform: " +
		"nothing was held",
	meter.EnergyPlatform: "all to the platform: the GPU was lost, its batch contradicted its size, or its owners are " +
		"unknown", meter.EnergyUnseen: "all to the platform: no part of the slot was observed",
	meter.EnergyLong:  "unattributed: the counter's movement covers more than 1.5 slots",
	meter.EnergyReset: "unattributed: the counter was reset",
}

// reason is the text for a piece's reason.
func (b *builder) reason(p *meter.Part) string {
	text := reasons[p.Why].long
	switch {
	case text == "":
		text = "the reason was not stored"
	case p.Why == meter.WhyFlagged:
		text += b.flaggedBy(p.StartMS + b.SlotMS)
	}
	if gap := gaps[p.Gap]; gap != "" && p.Bucket == meter.Unobserved && p.SliceMS > 0 {
		text += "; " + gap
	}
	return text
}

// flaggedBy names the last event that may have caused the health flag.
func (b *builder) flaggedBy(beforeMS int64) string {
	for _, ev := range slices.Backward(b.events) {
		if ev.Kind == "xid" && ev.GPU == b.GPU && ev.At.UnixMilli() < beforeMS {
			return fmt.Sprintf(" (XID %d at %s)", ev.Code, clockOf(ev.At.UTC()))
		}
	}
	return ""
}

// energy sums the slots by how their energy was split.
func (b *builder) energy() {
	type sums struct {
		mj    int64
		slots map[int64]bool
	}
	by := map[meter.EnergyWhy]*sums{}
	for _, p := range b.replay.Parts {
		if p.Owner != 0 {
			b.Energy.OwnersMJ += p.EnergyMJ
		} else {
			b.Energy.PlatformMJ += p.EnergyMJ
		}
		b.Energy.UnattributedMJ += p.UnattributedMJ
		if mj := p.EnergyMJ + p.UnattributedMJ; mj != 0 {
			if by[p.EnergyWhy] == nil {
				by[p.EnergyWhy] = &sums{slots: map[int64]bool{}}
			}
			by[p.EnergyWhy].mj += mj
			by[p.EnergyWhy].slots[p.StartMS] = true
		}
	}
	e := &b.Energy
	e.MovedMJ = e.OwnersMJ + e.PlatformMJ + e.UnattributedMJ
	for how := meter.EnergyNone; how <= meter.EnergyRefused; how++ {
		if s := by[how]; s != nil {
			e.Splits = append(e.Splits,
				EnergySplit{how.String(), len(s.slots), s.mj, cmp.Or(splits[how], "how it was split was not stored")})
		}
	}
}

// share is the time in one bucket, with its reasons, the greatest first.
type share struct {
	bucket  string
	sliceMS int64
	why     map[string]int64
}

// shares sums lines by bucket.
func shares(lines []Line, of func(Line) bool) (out []share) {
	for _, bucket := range [...]meter.Bucket{
		meter.Active, meter.Idle, meter.Unproven, meter.Free, meter.Stranded,
		meter.Unhealthy, meter.Unobserved,
	} {
		s := share{bucket: bucket.String(), why: map[string]int64{}}
		for _, l := range lines {
			if l.Bucket == s.bucket && l.SliceMS > 0 && of(l) {
				s.sliceMS += l.SliceMS
				s.why[l.Code] += l.SliceMS
			}
		}
		if s.sliceMS > 0 {
			out = append(out, s)
		}
	}
	return out
}

// shortReasons are the short texts by code.
var shortReasons = func() map[string]string {
	out := map[string]string{}
	for why, r := range reasons {
		out[why.String()] = r.short
	}
	return out
}()

func (b *builder) shareText(s share) string {
	codes := make([]string, 0, len(s.why))
	for code := range s.why {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(x, y string) int { return cmp.Or(cmp.Compare(s.why[y], s.why[x]), cmp.Compare(x, y)) })
	var because []string
	for _, code := range codes[:min(len(codes), 2)] {
		because = append(because, cmp.Or(shortReasons[code], "the reason was not stored"))
	}
	return fmt.Sprintf("%s %s because %s", b.hours(s.sliceMS), s.bucket, strings.Join(because, ", or "))
}

// hours formats slice-ms as GPU-hours, for reading.
func (b *builder) hours(sliceMS int64) string { return roundHours(sliceMS, b.Figures.GPUSlices) }

// summarised is the greatest number of owners that the summary names.
const summarised = 3

// summary states who pays for what part of the hour, and why, and what part nobody
// pays for.
func (b *builder) summary() []string {
	owners := slices.Clone(b.Owners)
	slices.SortStableFunc(owners, func(x, y Owner) int { return cmp.Compare(y.Held(), x.Held()) })
	var out []string
	for i, o := range owners {
		if i == summarised {
			out = append(out, fmt.Sprintf("%s more held a part of the GPU.", count(int64(len(owners)-i), "owner")))
			break
		}
		if o.Held() == 0 {
			continue
		}
		var parts []string
		for _, s := range shares(b.Lines, func(l Line) bool { return l.OwnerID == o.ID && l.Leaf == o.Leaf }) {
			parts = append(parts, b.shareText(s))
		}
		name := o.Tenant
		if o.Label != o.Tenant {
			name += " (" + o.Label + ")"
		}
		out = append(out, fmt.Sprintf("%s pays for %s GPU-hours: %s.", name, b.hours(o.Held()), strings.Join(parts, "; ")))
	}
	var parts []string
	var sliceMS int64
	for _, s := range shares(b.Lines, func(l Line) bool { return l.Owner == "" }) {
		parts, sliceMS = append(parts, b.shareText(s)), sliceMS+s.sliceMS
	}
	if sliceMS > 0 {
		out = append(out, fmt.Sprintf("No tenant pays for %s GPU-hours: %s.", b.hours(sliceMS), strings.Join(parts, "; ")))
	}
	return out
}
