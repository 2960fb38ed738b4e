package meter

import (
	"math"

	"github.com/gputally/gputally/internal/wire"
)

// QuietBelow is the activity under which an engine counts as quiet (R13): idle GPUs
// report noise of 3e-5 to 6e-5.
const QuietBelow = 0.005

// activity is the leaf's SM_ACTIVE, or GR_ENGINE_ACTIVE without it: A in R13.
func activity(l *wire.Leaf) (a float64, ok bool) {
	if a, ok := within(l.SmActive, 0, 1); ok {
		return a, true
	}
	return within(l.GrEngineActive, 0, 1)
}

// within treats a value outside its metric's range as absent.
func within(v *float64, lo, hi float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || *v < lo || *v > hi {
		return 0, false
	}
	return *v, true
}

// ContextWatts is the most that an open CUDA context adds to the power of an idle GPU:
// 26 to 50 W were measured. Without this allowance the commonest waste, a held GPU
// that only keeps a model loaded, could not be proven idle.
const ContextWatts = 60

// signals is the evidence about a leaf in a slot: which signals are valid, and which
// of those are quiet. a: activity, u: utilisation, p: power.
type signals struct {
	a, u, p                bool // valid
	aQuiet, uQuiet, pQuiet bool
	parked                 bool // power is quiet, and above the model's idle power
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

// readPower reads the GPU's mean power (P in R13). It is absent if the model's idle
// power is unknown, or if the energy counter did not move.
func (s *signals) readPower(g *wire.Gpu) {
	watts, ok := within(g.PowerWatts, 0, wire.MaxWatts)
	idle, known := within(g.IdleWatts, math.SmallestNonzeroFloat64, wire.MaxWatts)
	if ok && known && (g.EnergyMj == nil || *g.EnergyMj != 0) {
		s.p, s.pQuiet, s.parked = true, watts <= idle+ContextWatts, watts > idle && watts <= idle+ContextWatts
	}
}

// working reports whether the leaf did work: its activity is not quiet, or it has none
// and GPU_UTIL is above 0.
func (s signals) working() (bool, Why) {
	if s.a {
		return !s.aQuiet, WhyActivity
	}
	return s.u && !s.uQuiet, WhyUtil
}

// resting reports whether there is evidence that a leaf which isn't working did no
// work, with the reason. On MIG another instance at work proves that profiling metrics
// are collected.
func (s signals) resting(mig, otherWorks bool) (bool, Why) {
	quiet := WhyQuiet
	if s.parked {
		quiet = WhyParked
	}
	if mig {
		switch {
		case !s.a:
			return false, WhyMIGBlind
		case s.p && s.pQuiet && (!s.parked || !otherWorks): // else the power above idle may be the other instance's
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
