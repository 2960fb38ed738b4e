package explain

import (
	"cmp"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

// printer writes the text form.
type printer struct {
	strings.Builder
	zone *time.Location
}

func (p *printer) f(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *printer) wrapped(indent int, format string, args ...any) {
	p.WriteString(Wrap(fmt.Sprintf(format, args...), indent))
}

func (p *printer) head(title string) { p.f("\n%s", strings.ToUpper(title)) }

// clocks formats a range as times of day, in UTC and in the local zone if one was
// given.
func (p *printer) clocks(r Range) string {
	text := clockOf(r.From) + "-" + endClock(r.From, r.To)
	if p.zone != nil {
		from, to := r.From.In(p.zone), r.To.In(p.zone)
		text += fmt.Sprintf(" (%s-%s %s)", clockOf(from), endClock(from, to), from.Format("MST"))
	}
	return text
}

// endClock shows midnight as 24:00 of the day before.
func endClock(from, to time.Time) string {
	if to.After(from) && to.Hour() == 0 && to.Minute() == 0 && to.Second() == 0 && to.Nanosecond() == 0 {
		return "24:00:00"
	}
	return clockOf(to)
}

// WriteText writes the explanation for a terminal of TextWidth columns. Names from
// outside are written unchanged; the caller must make them printable.
func (e *Explanation) WriteText(w io.Writer) error {
	p := &printer{zone: e.zone}
	e.writeTitle(p)
	for _, paragraph := range e.Summary {
		p.f("")
		p.wrapped(0, "%s", paragraph)
	}
	e.writeFigures(p)
	e.writeOwners(p)
	if e.Raw == RawKept {
		e.writePresence(p)
		e.writeLines(p)
		e.writeHolds(p)
		e.writeEvents(p)
		e.writeEnergy(p)
		e.writeBatches(p)
	}
	e.writeProof(p)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	return nil
}

func (e *Explanation) writeTitle(p *printer) {
	p.wrapped(0, "GPU %s, %s, node %s, cluster %s", e.GPU, cmp.Or(e.Model, "model not known"),
		cmp.Or(e.Node, "not known"), e.Cluster)
	hour := "hour " + stamp(e.Hour)
	if e.HourLocal != "" {
		hour += fmt.Sprintf(" (%s, %s)", e.HourLocal, e.TimeZone)
	}
	if f := e.Figures; f.UntilMS < meter.HourMS {
		hour += fmt.Sprintf(", open: counted to %s", clockOf(e.Hour.Add(time.Duration(f.UntilMS)*time.Millisecond)))
	}
	p.f("%s", hour)
	for _, n := range e.Notes {
		p.wrapped(0, "! %s", n)
	}
}

func (e *Explanation) writeFigures(p *printer) {
	f := &e.Figures
	p.head("figures")
	p.f("  %s × %s ms present = %s slice-ms", count(int64(f.Slices), "slice"), grouped(f.PresentMS),
		grouped(f.CapacitySliceMS))
	for _, b := range [...]struct {
		name  string
		value int64
		note  string
	}{
		{"active", f.Active, ""},
		{"idle", f.Idle, ""},
		{"unproven", f.Unproven, ofIt(f.Inferred, "inferred")},
		{"free", f.Free, ""},
		{"stranded", f.Stranded, ""},
		{"unhealthy", f.Unhealthy, ""},
		{"unobserved", f.Unobserved, ofIt(f.UnobservedAttribution, "owners unknown")},
	} {
		p.f("  %-12s %15s slice-ms %s GPU-h %6s%s", b.name, grouped(b.value), gpuHours(b.value, f.GPUSlices),
			percent(b.value, f.CapacitySliceMS), b.note)
	}
	p.f("  %-12s %15s J", "energy", joules(f.EnergyMJ))
	p.wrapped(2, "epoch %d of rules and tenant mapping, computed from %s", f.Epoch, count(f.Inputs, "journal row"))
}

func ofIt(part int64, what string) string {
	if part == 0 {
		return ""
	}
	return fmt.Sprintf("  (%s of it %s)", grouped(part), what)
}

// roundHours formats slice-ms as GPU-hours with three decimal places, for reading.
func roundHours(sliceMS int64, slices int) string {
	hours := new(big.Rat)
	if slices > 0 {
		hours.SetFrac64(sliceMS, int64(slices)*meter.HourMS)
	}
	if text := hours.FloatString(3); text != "0.000" || sliceMS == 0 {
		return text
	}
	return "less than 0.001"
}

// gpuHours formats slice-ms as GPU-hours with nine decimal places.
func gpuHours(sliceMS int64, slices int) string {
	if slices == 0 {
		return "0.000000000"
	}
	return big.NewRat(sliceMS, int64(slices)*meter.HourMS).FloatString(9)
}

func percent(part, all int64) string {
	if part == 0 || all == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(all))
}

func (e *Explanation) writeOwners(p *printer) {
	if len(e.Owners) == 0 {
		return
	}
	p.head("owners")
	for _, o := range e.Owners {
		what := "whole GPU"
		if e.Figures.GPUSlices != e.Figures.Slices {
			what = "of a pool"
		}
		if o.Profile != "" {
			what = fmt.Sprintf("%s of %s", o.Profile, count(int64(o.ProfileSlices), "slice"))
		}
		p.wrapped(2, "%s: tenant %s%s, leaf %s (%s)", o.Label, o.Tenant, labelled(", project ", o.Project), o.Leaf, what)
		p.wrapped(6, "held %s slice-ms = active %s + idle %s + unproven %s%s; energy %s J",
			grouped(o.Held()), grouped(o.Active), grouped(o.Idle), grouped(o.Unproven), ofIt(o.Inferred, "inferred"),
			joules(o.EnergyMJ))
		p.wrapped(6, "%s; %s", cmp.Or(o.Facts, "facts not stored"), o.Mapping)
	}
}

func labelled(label, value string) string {
	if value == "" {
		return ""
	}
	return label + value
}

func (e *Explanation) writePresence(p *printer) {
	p.head("presence")
	for _, s := range e.Presence {
		p.wrapped(2, "%s: %s", p.clocks(s.Range), s.Why)
	}
}

func (e *Explanation) writeLines(p *printer) {
	p.head(fmt.Sprintf("slots of %s", seconds(e.SlotMS)))
	leaf := "\x00"
	for _, l := range e.byLeaf() {
		if l.Leaf != leaf {
			leaf = l.Leaf
			p.wrapped(2, "%s", cmp.Or(labelled("leaf ", leaf)+e.leafText(leaf), "the GPU itself"))
		}
		p.line(&l)
	}
}

// leafText describes the leaf, in each of its forms during the hour.
func (e *Explanation) leafText(leaf string) string {
	var forms []string
	for _, l := range e.Leaves {
		if l.Leaf == leaf && leaf != "" {
			forms = append(forms, l.Text)
		}
	}
	return labelled(": ", strings.Join(forms, "; or "))
}

// byLeaf sorts the lines by leaf, with the GPU's own lines last.
func (e *Explanation) byLeaf() []Line {
	lines := slices.Clone(e.Lines)
	slices.SortStableFunc(lines, func(a, b Line) int {
		if (a.Leaf == "") != (b.Leaf == "") {
			if a.Leaf == "" {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Leaf, b.Leaf)
	})
	return lines
}

func (p *printer) line(l *Line) {
	held := ""
	if l.Owner != "" {
		held = ", held by " + l.Owner
	}
	if l.Share != "" && l.Share != "1/1" {
		held += ", share " + l.Share
	}
	amount := grouped(l.SliceMS) + " slice-ms"
	if l.EnergyMJ != 0 {
		amount += ", " + joules(l.EnergyMJ) + " J"
	}
	if l.UnattributedMJ != 0 {
		amount += ", " + joules(l.UnattributedMJ) + " J unattributed"
	}
	bucket := l.Bucket
	if l.Inferred {
		bucket += " (inferred)"
	}
	p.wrapped(4, "%s: %s%s → %s, %s", p.clocks(l.Range), count(int64(l.Slots), "slot"), held, bucket, amount)
	why := l.Why
	if l.Signals != nil {
		why += "; " + l.Signals.text()
	}
	if l.Signals != nil && l.Signals.OtherWorks != "" {
		why += "; instance " + l.Signals.OtherWorks + " worked"
	}
	p.wrapped(8, "%s (%s)", why, l.Code)
}

func (e *Explanation) writeHolds(p *printer) {
	if len(e.Holds) == 0 {
		return
	}
	p.head("holds")
	for _, h := range e.Holds {
		share := ""
		if len(h.Shares) > 0 {
			share = ", share " + strings.Join(h.Shares, ", ")
		}
		p.wrapped(2, "%s %s on leaf %s%s, %s slice-ms", p.clocks(h.Range), h.Owner, h.Leaf, share, grouped(h.SliceMS))
		p.wrapped(6, "%s%s%s", cmp.Or(h.Facts, "facts not stored"), labelled("; begins ", h.Begins),
			labelled("; ends ", h.Ends))
	}
}

func (e *Explanation) writeBatches(p *printer) {
	if len(e.Batches)+len(e.Losers) > 0 {
		p.head("batches")
	}
	for _, b := range e.Batches {
		p.wrapped(2, "%s node %s: %s, %s partition %d, %s, collector %s, %s (%s)", p.clocks(b.Range), b.Node,
			count(int64(b.Count), "winner"),
			b.Topic, b.Partition, fromTo("offset", b.FromOffset, b.ToOffset), b.Collector,
			fromTo("seq", b.FromSeq, b.ToSeq), b.Origin)
		p.wrapped(6, "rank: %s", b.Rank)
	}
	for _, l := range e.Losers {
		p.wrapped(2, "%s node %s: superseded, partition %d, offset %d, collector %s, boot %s, seq %d", clockOf(l.Slot),
			l.Node, l.Partition,
			l.Offset, l.Collector, bootText(l.BootMS), l.Seq)
		p.wrapped(6, "%s", l.Why)
	}
}

func fromTo(what string, from, to uint64) string {
	if from == to {
		return fmt.Sprintf("%s %d", what, from)
	}
	return fmt.Sprintf("%s %d-%d", what, from, to)
}

func (e *Explanation) writeEvents(p *printer) {
	if len(e.Events) == 0 {
		return
	}
	p.head("events")
	for _, ev := range e.Events {
		at := clockOf(ev.At)
		if p.zone != nil {
			local := ev.At.In(p.zone)
			at += fmt.Sprintf(" (%s %s)", clockOf(local), local.Format("MST"))
		}
		p.wrapped(2, "%s node %s%s: %s %d%s", at, ev.Node, labelled(", leaf ", ev.Leaf), ev.Kind, ev.Code,
			labelled(", ", ev.Detail))
	}
}

func (e *Explanation) writeEnergy(p *printer) {
	p.head("energy")
	n := e.Energy
	p.wrapped(2, "counters moved %s J = owners %s + platform %s + unattributed %s", joules(n.MovedMJ), joules(n.OwnersMJ),
		joules(n.PlatformMJ), joules(n.UnattributedMJ))
	for _, s := range n.Splits {
		p.wrapped(2, "%s, %s J: %s (%s)", count(int64(s.Slots), "slot"), joules(s.MJ), s.Why, s.Code)
	}
}

func (e *Explanation) writeProof(p *printer) {
	p.head("proof")
	p.wrapped(2, "%s", cmp.Or(e.Proof.Text, "none"))
	for _, d := range e.Proof.Differences {
		p.wrapped(4, "%s", d)
	}
}
