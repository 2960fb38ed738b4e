package meter

import (
	"math"

	"github.com/gputally/gputally/internal/wire"
)

// QuietBelow is the activity under which an engine counts as quiet (R13): idle
// boards report noise of 3e-5 to 6e-5.
const QuietBelow = 0.005

// activity is A of R13: SM_ACTIVE, else GR_ENGINE_ACTIVE.
func activity(l *wire.Leaf) (a float64, ok bool) {
	if a, ok := within(l.SmActive, 0, 1); ok {
		return a, true
	}
	return within(l.GrEngineActive, 0, 1)
}

// within takes a value out of its metric's range as absent.
func within(v *float64, lo, hi float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || *v < lo || *v > hi {
		return 0, false
	}
	return *v, true
}

// signals is the evidence of a leaf in a slot: what is valid, and what of it
// is quiet.
type signals struct {
	a, u, p                bool // valid
	aQuiet, uQuiet, pQuiet bool
}

// power is P of R13: absent where the model's idle power is unknown, and where
// the energy counter stood still.
func power(g *wire.Gpu) (valid, quiet bool) {
	watts, ok := within(g.PowerWatts, 0, wire.MaxWatts)
	idle, known := within(g.IdleWatts, math.SmallestNonzeroFloat64, wire.MaxWatts)
	if !ok || !known || (g.EnergyMj != nil && *g.EnergyMj == 0) {
		return false, false
	}
	return true, watts <= idle
}

func readSignals(g *wire.Gpu, l *wire.Leaf) signals {
	var s signals
	if a, ok := activity(l); ok {
		s.a, s.aQuiet = true, a < QuietBelow
	}
	if u, ok := within(l.GpuUtil, 0, 100); ok && !g.Mig {
		s.u, s.uQuiet = true, u == 0
	}
	s.p, s.pQuiet = power(g)
	return s
}

// working says that the leaf did work: A is not quiet, or A is absent and U > 0.
func (s signals) working() bool {
	if s.a {
		return !s.aQuiet
	}
	return s.u && !s.uQuiet
}

// resting says that there is evidence of no work. On MIG another leaf at work
// proves that the profiler lives.
func (s signals) resting(mig, otherWorks bool) bool {
	if mig {
		return s.a && s.aQuiet && ((s.p && s.pQuiet) || otherWorks)
	}
	valid, quiet := 0, 0
	for _, x := range [...]struct{ valid, quiet bool }{{s.a, s.aQuiet}, {s.u, s.uQuiet}, {s.p, s.pQuiet}} {
		if x.valid {
			valid++
			if x.quiet {
				quiet++
			}
		}
	}
	return valid >= 2 && quiet == valid
}
