package forecast

import (
	"math"
	"math/rand/v2"
)

// simulateFleet is the hourly GPU-hours of a fleet's tenants.
func simulateFleet(kind string, seed uint64, tenants, days int) (hours [][]float64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	for range tenants {
		switch kind {
		case "research":
			hours = append(hours, research(rng, days))
		case "steps":
			hours = append(hours, steps(rng, days))
		default:
			hours = append(hours, drifting(rng, kind, days))
		}
	}
	return hours
}

// drifting is a tenant whose level wanders around its mean, or around a trend in the fleet
// growing: an office with its nightly jobs, or services around the clock.
func drifting(rng *rand.Rand, kind string, days int) (hours []float64) {
	level, growth := 5+20*rng.Float64(), 0.0
	if kind == "growing" {
		growth = 0.02 * rng.NormFloat64()
	}
	drift, night := 0.0, rng.IntN(2) == 0
	for d := range days {
		drift = 0.9*drift + 0.08*rng.NormFloat64()
		busy := level * math.Exp(growth*float64(d)+drift) * math.Exp(0.15*rng.NormFloat64())
		for h := range 24 {
			v := 0.1 * busy
			switch {
			case kind == "services":
				v = busy * (1 + 0.3*math.Sin(2*math.Pi*float64(h)/24))
			case d%7 < 5 && h >= 8 && h < 18:
				v = busy
			case night && h < 4:
				v = level * 0.8
			}
			hours = append(hours, math.Max(0, v*(1+0.1*rng.NormFloat64())))
		}
	}
	return hours
}

// research is people who start jobs of a lognormal length, mostly on working days, some weeks
// more than others.
func research(rng *rand.Rand, days int) []float64 {
	hours := make([]float64, days*24)
	for range 2 + rng.IntN(12) {
		rate, gpus, mood := 0.3+1.2*rng.Float64(), float64(int(1)<<rng.IntN(4)), rng.NormFloat64()*0.5
		for d := range days {
			mood = 0.95*mood + 0.16*rng.NormFloat64()
			jobs := rate * math.Exp(mood)
			if d%7 >= 5 {
				jobs *= 0.25
			}
			for rng.Float64() < 1-math.Exp(-jobs) {
				from := float64(d*24) + 9 + 9*rng.Float64()
				to := from + math.Min(2*math.Exp(1.2*rng.NormFloat64()), 72)
				for h := int(from); h < len(hours) && float64(h) < to; h++ {
					hours[h] += gpus * (math.Min(to, float64(h+1)) - math.Max(from, float64(h)))
				}
				jobs *= 0.5
			}
		}
	}
	return hours
}

// steps is replicas that stay for a month or so until their number is changed, with a batch
// on Sundays, or a week of holidays.
func steps(rng *rand.Rand, days int) []float64 {
	hours := make([]float64, days*24)
	base, swing, sunday, off := 4+20*rng.Float64(), 0.5*rng.Float64(), rng.IntN(3) == 0, days
	if rng.IntN(3) == 0 {
		off = rng.IntN(days)
	}
	for d := range days {
		if rng.IntN(30) == 0 {
			base *= math.Exp(0.5 * rng.NormFloat64())
		}
		part := 1.0
		if d >= off && d < off+7 {
			part = 0.3
		}
		if d%7 >= 5 {
			part *= 0.7
		}
		for h := range 24 {
			v := base * part * (1 + swing*math.Sin(2*math.Pi*float64(h)/24)) * math.Exp(0.1*rng.NormFloat64())
			if hours[d*24+h] = math.Round(v); sunday && d%7 == 6 && h >= 10 && h < 16 {
				hours[d*24+h] += base
			}
		}
	}
	return hours
}
