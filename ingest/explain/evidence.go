package explain

import (
	"fmt"
	"math"
	"strings"

	"github.com/gputally/gputally/internal/meter"
)

// Where an activity was read from.
const (
	fromSM = "SM_ACTIVE"        // DCGM field 1002
	fromGR = "GR_ENGINE_ACTIVE" // DCGM field 1001
)

// power readings that R13 tells apart.
type power int

const (
	powerAbsent power = iota
	powerQuiet
	powerLoud
)

// signals is what is kept of a leaf's evidence in a slot.
type signals struct {
	kept      bool   // a sample of the winning batch is there
	source    string // of a; empty: A is absent
	a         float64
	utilOK    bool
	util      float64
	wattsOK   bool
	watts     float64
	idleWatts float64 // of the model table; the batch's own figure isn't kept
	stood     bool    // the energy counter stood still: power is no evidence
}

// none says that nothing at all was read.
func (s signals) none() bool { return s.source == "" && !s.utilOK && !s.wattsOK }

// reading is P of R13 by the model table.
func (s signals) reading() power {
	switch {
	case !s.wattsOK || s.idleWatts == 0 || s.stood:
		return powerAbsent
	case s.watts <= s.idleWatts:
		return powerQuiet
	}
	return powerLoud
}

// situation is what else R13 asks about a holder.
type situation struct {
	mig        bool
	otherWorks string // another leaf of the board whose A isn't quiet; empty: none
	owners     int    // on the leaf in the slot
	covers     bool   // held all that was observed of the slot
}

// verdict is a bucket of R13 and the reason's code.
type verdict struct {
	bucket meter.Bucket
	code   string
}

// Codes of reasons. JSON carries them: they are stable.
const (
	codeActivity  = "activity"         // A is not quiet
	codeUtil      = "gpu_util"         // A is absent, U is above zero
	codeShared    = "shared_work"      // work, but several owners
	codeQuiet     = "all_quiet"        // at least two signals, all quiet
	codeMIGPower  = "mig_quiet"        // on MIG: A and P quiet
	codeMIGOther  = "mig_other"        // on MIG: A quiet, another leaf works
	codePartly    = "held_partly"      // quiet, but not held all the time
	codeNoSignal  = "no_signal"        // nothing valid
	codeOneSignal = "one_signal"       // one is not enough
	codeContrary  = "contradictory"    // not all signals are quiet
	codeMIGBlind  = "mig_no_a"         // on MIG: A absent
	codeMIGAlone  = "mig_unproven"     // on MIG: A quiet, nothing proves that the profiler lives
	codeNotKept   = "not_kept"         // the evidence kept doesn't lead there
	codeInferred  = "inferred"         // R10
	codeGap       = "gap"              // R10, not inferred
	codeUnread    = "attribution"      // R4
	codeCut       = "slot_in_part"     // the unobserved part of a slot
	codeExcess    = "excess"           // R2
	codeLost      = "lost"             // R9.2
	codeMissing   = "not_enumerated"   // R2
	codeFlagged   = "flagged"          // R9.5
	codeNotHeld   = "not_held"         // R9.7
	codeUnowned   = "unowned_work"     // R4
	codeUncovered = "uncovered"        // R9.3
	codeFewer     = "fewer_slices"     // R2
	codePool      = "not_allocated"    // R18
	codeOpenPool  = "unknown_capacity" // R18
	codeImported  = "imported"         // R18
	codeFilled    = "filled"
	codeNoSlot    = "unattributed" // R16
)

// decide is R13 for one holder.
func decide(s signals, p power, at situation) verdict {
	aQuiet := s.source != "" && s.a < meter.QuietBelow
	working := s.source != "" && !aQuiet
	if s.source == "" && s.utilOK && s.util > 0 && !at.mig {
		working = true
	}
	switch {
	case working && at.owners > 1:
		return verdict{meter.Unproven, codeShared}
	case working && s.source != "":
		return verdict{meter.Active, codeActivity}
	case working:
		return verdict{meter.Active, codeUtil}
	case at.mig:
		return decideMIG(s, p, at)
	}
	valid, quiet := 0, 0
	for _, x := range [...]struct{ valid, quiet bool }{
		{s.source != "", aQuiet}, {s.utilOK, s.util == 0}, {p != powerAbsent, p == powerQuiet},
	} {
		if x.valid {
			valid++
			if x.quiet {
				quiet++
			}
		}
	}
	switch {
	case valid == 0:
		return verdict{meter.Unproven, codeNoSignal}
	case valid == 1 && quiet == 1:
		return verdict{meter.Unproven, codeOneSignal}
	case quiet < valid:
		return verdict{meter.Unproven, codeContrary}
	case !at.covers:
		return verdict{meter.Unproven, codePartly}
	}
	return verdict{meter.Idle, codeQuiet}
}

func decideMIG(s signals, p power, at situation) verdict {
	proof := ""
	switch {
	case s.source == "":
		return verdict{meter.Unproven, codeMIGBlind}
	case p == powerQuiet:
		proof = codeMIGPower
	case at.otherWorks != "":
		proof = codeMIGOther
	default:
		return verdict{meter.Unproven, codeMIGAlone}
	}
	if !at.covers {
		return verdict{meter.Unproven, codePartly}
	}
	return verdict{meter.Idle, proof}
}

// why finds the reason for the bucket that stands in raw: by the model table's
// idle watts, else by what the batch's own figure must have said. deduced tells
// the latter.
func why(bucket meter.Bucket, s signals, at situation) (code string, p power, deduced bool) {
	table := s.reading()
	if !s.kept {
		return codeNotKept, powerAbsent, false
	}
	if v := decide(s, table, at); v.bucket == bucket {
		return v.code, table, false
	}
	if s.wattsOK && !s.stood {
		for _, p := range []power{powerAbsent, powerQuiet, powerLoud} {
			if v := decide(s, p, at); v.bucket == bucket {
				return v.code, p, true
			}
		}
	}
	return codeNotKept, table, false
}

// span is the least and the greatest of a signal over a line's slots.
type span struct {
	n        int
	min, max float64
}

func (r *span) add(v float64) {
	if r.n == 0 || v < r.min {
		r.min = v
	}
	if r.n == 0 || v > r.max {
		r.max = v
	}
	r.n++
}

func (r *span) join(o span) {
	if o.n > 0 {
		n := r.n
		r.add(o.min)
		r.add(o.max)
		r.n = n + o.n
	}
}

// text is the range, each end with as many digits as it has.
func (r span) text() string {
	lo, hi := decimal(r.min), decimal(r.max)
	if lo == hi {
		return lo
	}
	return lo + "-" + hi
}

// decimal rounds to the samples' 1e-4, and tells a small value from none.
func decimal(v float64) string {
	text := strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.4f", v), "0"), ".")
	if text == "0" && v > 0 {
		return "<0.0001"
	}
	return text
}

// evidence is a line's signals over its slots.
type evidence struct {
	source    string
	a, u, p   span
	idleWatts float64
	power     power
	deduced   bool
	stood     bool
}

func (e *evidence) add(s signals, p power, deduced bool) {
	e.source, e.idleWatts, e.power, e.deduced, e.stood = s.source, s.idleWatts, p, deduced, s.stood
	if s.source != "" {
		e.a.add(s.a)
	}
	if s.utilOK {
		e.u.add(s.util)
	}
	if s.wattsOK {
		e.p.add(s.watts)
	}
}

// text is all signals in words, quiet or not.
func (e *evidence) text(mig bool) string {
	var parts []string
	switch {
	case e.a.n == 0:
		parts = append(parts, "SM_ACTIVE and GR_ENGINE_ACTIVE absent")
	case e.a.max < meter.QuietBelow:
		parts = append(parts, fmt.Sprintf("%s %s < %g, quiet", e.source, e.a.text(), meter.QuietBelow))
	default:
		parts = append(parts, fmt.Sprintf("%s %s, not quiet", e.source, e.a.text()))
	}
	switch {
	case mig:
	case e.u.n == 0:
		parts = append(parts, "GPU_UTIL absent")
	case e.u.max == 0:
		parts = append(parts, "GPU_UTIL 0, quiet")
	default:
		parts = append(parts, fmt.Sprintf("GPU_UTIL %s", e.u.text()))
	}
	return strings.Join(append(parts, e.powerText()), "; ")
}

func (e *evidence) powerText() string {
	if e.p.n == 0 {
		return "power absent"
	}
	text := "power " + e.p.text() + " W"
	switch {
	case e.stood:
		return text + ", no evidence: the energy counter stood still"
	case e.deduced:
		return text + map[power]string{
			powerAbsent: ", no evidence in this slot", powerQuiet: ", quiet", powerLoud: ", not quiet",
		}[e.power] + " (by the batch's own idle watts, which are not kept)"
	case e.idleWatts == 0:
		return text + ", no evidence: idle watts of the model are not known"
	case e.power == powerQuiet:
		return text + fmt.Sprintf(" ≤ idle %g W, quiet", e.idleWatts)
	}
	return text + fmt.Sprintf(" > idle %g W, not quiet", e.idleWatts)
}

// exactA is the activity that a row's work was computed from: finer than the
// sample's 1e-4.
func exactA(r *meter.Row) (a, tolerance float64) {
	if r.SliceMS == 0 {
		return 0, math.Inf(1)
	}
	scale := 1e4 * float64(r.SliceMS)
	return float64(r.Work) / scale, 0.6e-4 + 0.5/scale
}
