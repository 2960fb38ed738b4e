package explain

import (
	"fmt"
	"strings"

	"github.com/gputally/gputally/internal/meter"
)

// words turns entries into sentences.
type words struct {
	raw     *raw
	cells   []cell
	slotMS  int64
	slices  int
	kind    meter.Kind
	mapping *mapping
	first   map[string]uint64 // the least hash of each owner's id
}

func (w *words) line(e *entry) Line {
	l := Line{
		Range: between(e.fromMS, e.toMS), Slots: e.slots, Node: e.node, Leaf: w.raw.leaves[e.leaf].Leaf,
		Owner: w.raw.label(e.owner), OwnerID: w.raw.owners[e.owner].Owner, Inferred: e.inferred, SliceMS: e.sliceMS,
		EnergyMJ: e.energyMJ, UnattributedMJ: e.unattributedMJ, Share: shareText(e.head, e.tail), Code: e.code, Rule: rules[e.code],
	}
	if e.bucket != 0 {
		l.Bucket = e.bucket.String()
	}
	if e.owner != 0 {
		l.Tenant = w.tenant(e.owner)
	}
	if e.hasEvidence {
		l.Signals = e.evidence.signals(e.otherWorks)
	}
	l.Why = w.why(e)
	return l
}

// tenant is the owner's as the row has it, else by the mapping.
func (w *words) tenant(owner uint64) string {
	o := w.raw.owners[owner]
	for i, id := range w.raw.row.Owner {
		if id == owner || w.raw.owners[id].Owner == o.Owner {
			return w.raw.row.Tenant[i]
		}
	}
	tenant, _, _ := w.mapping.at(w.raw.row, o)
	return tenant
}

// rules names the rule behind each code.
var rules = map[string]string{
	codeActivity: "R13", codeUtil: "R13", codeShared: "R13", codeQuiet: "R13", codeMIGPower: "R13", codeMIGOther: "R13",
	codePartly: "R13", codeNoSignal: "R13", codeOneSignal: "R13", codeContrary: "R13", codeMIGBlind: "R13", codeMIGAlone: "R13",
	codeNotKept: "R13", codeInferred: "R10", codeGap: "R10", codeUnread: "R4", codeCut: "R10", codeExcess: "R2", codeLost: "R9.2",
	codeMissing: "R2", codeFlagged: "R9.5", codeNotHeld: "R9.7", codeUnowned: "R4", codeUncovered: "R9.3", codeFewer: "R2", codeNoSlot: "R16",
	codePool: "R18", codeOpenPool: "R18", codeImported: "R18", codeFilled: "R18",
}

// why is a line's reason in one sentence.
func (w *words) why(e *entry) string {
	evidence := e.evidence.text(e.mig)
	switch e.code {
	case codeActivity:
		return "work: " + evidence
	case codeUtil:
		return "work: A is absent and GPU_UTIL is above 0; " + evidence
	case codeShared:
		return fmt.Sprintf("work, but %d owners had the leaf in these slots, and nothing tells whose it was; %s", e.owners, evidence)
	case codeQuiet:
		return "no work: two signals or more, all quiet, and held all that was observed; " + evidence
	case codeMIGPower:
		return "no work on a MIG instance: A and power quiet, and held all that was observed; " + evidence
	case codeMIGOther:
		return "no work on a MIG instance: A quiet while " + e.otherWorks + " worked, so the profiler lives; " + evidence
	case codePartly:
		return "no work seen, but not held all that was observed of the slot, and signals are the whole slot's; " + evidence
	case codeNoSignal:
		return "no signal was valid; " + evidence
	case codeOneSignal:
		return "only one signal was valid, idle needs two; " + evidence
	case codeContrary:
		return "not all signals are quiet, and none proves work; " + evidence
	case codeMIGBlind:
		return "A is absent, and on a MIG instance nothing else can tell; " + evidence
	case codeMIGAlone:
		return "A quiet on a MIG instance, but power isn't and no other instance worked: the profiler may be dead; " + evidence
	case codeNotKept:
		return w.notKept(e, evidence)
	case codeUnowned:
		return "work, but no owner held it: it stays free, and somebody should look; " + evidence
	}
	return w.whyPlatform(e)
}

func (w *words) notKept(e *entry, evidence string) string {
	if !e.hasEvidence {
		return "which evidence decided is not kept: there is no sample of the batch"
	}
	return "which evidence decided is not kept: what is kept doesn't lead to " + e.bucket.String() + "; " + evidence
}

func (w *words) whyPlatform(e *entry) string {
	switch e.code {
	case codeInferred, codeGap:
		return w.gap(e)
	case codeUnread:
		return "the owners could not be read, so the leaves' time is nobody's; " + w.gap(e)
	case codeCut:
		return "the part of the slot that nobody saw; " + w.gap(e)
	case codeExcess:
		return fmt.Sprintf("the slot tells of more slices, or of leaves beyond them, than the hour's capacity of %d: all of it is unobserved, its energy the platform's", w.slices)
	case codeLost:
		return "listed by its node, but fallen off the bus"
	case codeMissing:
		return "missing from its node's complete enumeration: lost"
	case codeFlagged:
		return "flagged unhealthy and not at work: no tenant pays" + w.flaggedBy(e)
	case codeNotHeld:
		return "observed, no owner held it"
	case codePool:
		return "no allocation had this part of the pool"
	case codeOpenPool:
		return "the pool's capacity is not known: its slices are what was in use at most, and what no allocation had is not called free"
	case codeImported:
		return "an imported hold brings no evidence: unproven, never called idle"
	case codeFilled:
		return "nobody saw the node in these slots; allocation records say who held it: unproven, and what they don't say stays unobserved"
	case codeUncovered:
		return "no leaf covered these slices"
	case codeFewer:
		return fmt.Sprintf("the slot has fewer slices than the hour's capacity of %d", w.slices)
	}
	return "energy of no slot: the counter's movement covers more than 1.5 slots, or it was reset (which of them is not kept)"
}

// flaggedBy names the last event that may have set the flag.
func (w *words) flaggedBy(e *entry) string {
	for i := len(w.raw.events) - 1; i >= 0; i-- {
		ev := w.raw.events[i]
		if ev.Kind == "xid" && ev.GPU == w.raw.row.GPU && ev.At.UnixMilli() < e.toMS {
			return fmt.Sprintf(" (XID %d at %s)", ev.Code, clockOf(ev.At))
		}
	}
	return ""
}

// shareText is a share of the leaf at the first and at the last instant seen.
func shareText(head, tail meter.Share) string {
	first, last := oneShare(head), oneShare(tail)
	switch {
	case head == 0 && tail == 0:
		return ""
	case head == tail:
		return first
	case head == 0:
		return "none, then " + last
	case tail == 0:
		return first + ", then none"
	}
	return first + ", then " + last
}

func oneShare(s meter.Share) string {
	num, den := s.Rat()
	return fmt.Sprintf("%d/%d", num, den)
}

// signals are the evidence in figures.
func (e *evidence) signals(other string) *Signals {
	s := &Signals{Source: e.source, OtherWorks: other}
	s.ActiveMin, s.ActiveMax = e.a.ends()
	s.UtilMin, s.UtilMax = e.u.ends()
	s.PowerMin, s.PowerMax = e.p.ends()
	if e.idleWatts > 0 {
		s.IdleWatts = &e.idleWatts
	}
	return s
}

func (r span) ends() (lo, hi *float64) {
	if r.n == 0 {
		return nil, nil
	}
	return &r.min, &r.max
}

// capacity says where the hour's slices come from (R2).
func (w *words) capacity() string {
	start := w.raw.row.startMS()
	for i := range w.cells {
		c := &w.cells[i]
		if c.startMS >= start && c.startMS < w.raw.row.endMS() && c.record != nil && c.record.Slices > 0 {
			return fmt.Sprintf("%s: the hour's first record, at %s on %s (R2)", count(int64(w.slices), "slice"), clockMS(c.startMS), c.node)
		}
	}
	if len(w.raw.sightings) > 0 {
		return fmt.Sprintf("%s: as last known, no record of the hour tells any (R2)", count(int64(w.slices), "slice"))
	}
	return fmt.Sprintf("%s: nothing tells more (R2)", count(int64(w.slices), "slice"))
}

// presence is where the GPU stands in the inventory, and why (R2).
func (w *words) presence(segments []segment) []Stretch {
	out := []Stretch{}
	for i := range segments {
		s := &segments[i]
		if s.kind == absent {
			continue
		}
		if n := len(out) - 1; n >= 0 && out[n].To.UnixMilli() == s.fromMS {
			out[n].Range = between(out[n].From.UnixMilli(), s.toMS)
			continue
		}
		out = append(out, Stretch{Range: between(s.fromMS, s.toMS)})
	}
	for i := range out {
		out[i].Why = w.whyPresent(out[i].From.UnixMilli(), out[i].To.UnixMilli())
	}
	return out
}

func (w *words) whyPresent(fromMS, toMS int64) string {
	row := w.raw.row
	var parts []string
	before := w.lastListed(row.startMS())
	switch {
	case fromMS == row.startMS() && before > 0:
		parts = append(parts, "in the inventory since before the hour, last listed until "+stampMS(before))
	case w.raw.firstSeenMS > 0 && w.raw.firstSeenMS < fromMS:
		parts = append(parts, "opens again at a record in a winning batch")
	default:
		parts = append(parts, "opens at its earliest record in a winning batch")
	}
	last := w.lastListed(toMS)
	switch retired := w.retiredAt(toMS); {
	case retired != nil:
		parts = append(parts, fmt.Sprintf("taken out early at %s by %s: %s", clockMS(toMS), retired.Who, retired.Reason))
	case w.kind == meter.OpenPool && toMS == last:
		parts = append(parts, "there only while it is listed: its capacity is not known (R18)")
	case last > 0 && toMS == last+meter.RetireAfterMS:
		parts = append(parts, fmt.Sprintf("closes 24 h after %s, the end of the last slot that lists it", stampMS(last)))
	case toMS == row.startMS()+meter.HourMS:
		parts = append(parts, "still there at the hour's end")
	case toMS == row.endMS():
		parts = append(parts, "counted up to the watermark, the end of the newest slot of the cluster")
	}
	return strings.Join(parts, "; ") + " (R2)"
}

// retiredAt is the retirement at an instant, nil where there is none.
func (w *words) retiredAt(ms int64) *retirementRow {
	for i := range w.raw.retirements {
		if r := &w.raw.retirements[i]; r.cutMS == ms {
			return r
		}
	}
	return nil
}

// lastListed is the end of the last slot before an instant that lists the GPU, 0: none known.
func (w *words) lastListed(beforeMS int64) (last int64) {
	for _, s := range w.raw.sightings {
		last = max(last, s.LastMS)
	}
	for i := range w.cells {
		if c := &w.cells[i]; len(c.listers) > 0 && c.startMS >= w.raw.row.startMS() && c.startMS < beforeMS {
			last = max(last, c.startMS+w.slotMS)
		}
	}
	if last <= w.raw.cutBefore(beforeMS) {
		return 0
	}
	return last
}
