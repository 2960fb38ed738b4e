package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/meter"
)

//go:embed words.yaml
var wordsYAML []byte

// wording is the texts for codes; short ones are for the summary.
type wording struct {
	Reasons map[string]struct { // by meter.Why
		Short string `yaml:"short"`
		Long  string `yaml:"long"`
	} `yaml:"reasons"`
	Gaps   map[string]string `yaml:"gaps"`   // by meter.GapWhy
	Splits map[string]string `yaml:"splits"` // by meter.EnergyWhy
}

var words = func() (w wording) {
	if err := config.Decode("words.yaml", wordsYAML, &w); err != nil {
		panic(err) // the file is a part of the program
	}
	return w
}()

// reason is the text for a piece's reason.
func (b *builder) reason(p *meter.Part) string {
	text := words.Reasons[p.Why.String()].Long
	switch {
	case text == "":
		text = "the reason was not stored"
	case p.Why == meter.WhyFlagged:
		text += b.flaggedBy(p.StartMS + b.SlotMS)
	}
	if gap := words.Gaps[p.Gap.String()]; gap != "" && p.Bucket == meter.Unobserved && p.SliceMS > 0 {
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
	for _, p := range b.recomputed.Parts {
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
				EnergySplit{how.String(), len(s.slots), s.mj, cmp.Or(words.Splits[how.String()], "how it was split was not stored")})
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

func (b *builder) shareText(s share) string {
	codes := make([]string, 0, len(s.why))
	for code := range s.why {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(x, y string) int { return cmp.Or(cmp.Compare(s.why[y], s.why[x]), cmp.Compare(x, y)) })
	var because []string
	for _, code := range codes[:min(len(codes), 2)] {
		because = append(because, cmp.Or(words.Reasons[code].Short, "the reason was not stored"))
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
