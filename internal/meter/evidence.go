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

// contextWatts is what an open CUDA context lifts a resting board by, at most:
// 26 to 50 W were measured. Without it the commonest waste, a held GPU with a
// loaded model, would have no proof.
const contextWatts = 60

// signals is the evidence of a leaf in a slot: what is valid, and what of it
// is quiet.
type signals struct {
	a, u, p                bool // valid
	aQuiet, uQuiet, pQuiet bool
	parked                 bool // P is quiet, and above the model's idle power
}

func readSignals(g *wire.Gpu, l *wire.Leaf) signals {
	var s signals
	if a, ok := activity(l); ok {
		s.a, s.aQuiet = true, a < QuietBelow
	}
	if u, ok := within(l.GpuUtil, 0, 100); ok && !g.Mig {
		s.u, s.uQuiet = true, u == 0
	}
	s.readPower(g)
	return s
}

// readPower reads P of R13, the board's mean power: absent where the model's idle
// power is unknown, and where the energy counter stood still.
func (s *signals) readPower(g *wire.Gpu) {
	watts, ok := within(g.PowerWatts, 0, wire.MaxWatts)
	idle, known := within(g.IdleWatts, math.SmallestNonzeroFloat64, wire.MaxWatts)
	if ok && known && (g.EnergyMj == nil || *g.EnergyMj != 0) {
		s.p, s.pQuiet, s.parked = true, watts <= idle+contextWatts, watts > idle && watts <= idle+contextWatts
	}
}

// working says that the leaf did work: A is not quiet, or A is absent and U > 0.
func (s signals) working() (bool, Why) {
	if s.a {
		return !s.aQuiet, WhyActivity
	}
	return s.u && !s.uQuiet, WhyUtil
}

// resting says whether there is evidence of no work in a leaf that doesn't work,
// and why or why not. On MIG another leaf at work proves that the profiler lives.
func (s signals) resting(mig, otherWorks bool) (bool, Why) {
	quiet := WhyQuiet
	if s.parked {
		quiet = WhyParked
	}
	if mig {
		switch {
		case !s.a:
			return false, WhyMIGBlind
		case s.p && s.pQuiet:
			return true, quiet
		case otherWorks:
			return true, WhyOtherWorks
		}
		return false, WhyMIGAlone
	}
	valid := 0
	for _, x := range [...]struct{ valid, quiet bool }{{s.a, s.aQuiet}, {s.u, s.uQuiet}, {s.p, s.pQuiet}} {
		if x.valid && !x.quiet {
			return false, WhyContrary
		}
		if x.valid {
			valid++
		}
	}
	switch valid {
	case 0:
		return false, WhyNoSignal
	case 1:
		return false, WhyOneSignal
	}
	return true, quiet
}
