package forecast

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// method forecasts the days after those that it gets: their amounts, never below 0.
type method struct {
	name string
	of   func(p *past, days int) []float64
}

var methods = []method{
	{"seasonal naive", seasonalNaive}, // the first: the others are compared with it
	{"hour-of-week median", weekMedian},
	{"exponential smoothing 0.05", smoothing(0.05, 0, 1)},
	{"exponential smoothing 0.1", smoothing(0.1, 0, 1)},
	{"exponential smoothing 0.2", smoothing(0.2, 0, 1)},
	{"exponential smoothing 0.5", smoothing(0.5, 0, 1)},
	{"damped trend 0.2", smoothing(0.2, 0.1, 0.98)},
	{"damped trend 0.5", smoothing(0.5, 0.2, 0.9)},
}

// past is the days that a method may know, and what several methods make of them.
type past struct {
	hours, days []float64
	least       float64   // added to a day before its logarithm, so that 0 has one
	logs        []float64 // of the days, without the weekly pattern
	pattern     [daysPerWeek]float64
}

func newPast(hours, days []float64) *past {
	p := &past{hours: hours, days: days, least: max(0.05*stat.Mean(days, nil), 1e-9)}
	p.logs = make([]float64, len(days))
	for i, v := range days {
		p.logs[i] = math.Log(v + p.least)
	}
	p.pattern = weekPattern(p.logs)
	for i := range p.logs {
		p.logs[i] -= p.pattern[i%daysPerWeek]
	}
	return p
}

func seasonalNaive(p *past, days int) []float64 {
	out := make([]float64, days)
	for i := range out {
		out[i] = p.days[len(p.days)-daysPerWeek+i%daysPerWeek]
	}
	return out
}

// weekMedian is the sum of the medians of the same hours of the week, over four weeks.
func weekMedian(p *past, days int) []float64 {
	var week [daysPerWeek]float64
	for i := range week {
		for hour := range hoursPerDay {
			var weeks [4]float64
			same := weeks[:0]
			for back := daysPerWeek - i; back <= len(p.days) && len(same) < len(weeks); back += daysPerWeek {
				same = append(same, p.hours[(len(p.days)-back)*hoursPerDay+hour])
			}
			week[i] += median(same)
		}
	}
	out := make([]float64, days)
	for i := range out {
		out[i] = week[i%daysPerWeek]
	}
	return out
}

// median sorts the values, of which there is at least one.
func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// smoothing is exponential smoothing of the logarithms of what the weekly pattern leaves,
// with a damped trend or, if beta is 0, without one: a tenant grows, and varies, in
// proportion to its size. alpha and beta are the weights of a day's error in the level and,
// times alpha, in the trend; damping is what is left of a day's trend on the next.
func smoothing(alpha, beta, damping float64) func(*past, int) []float64 {
	return func(p *past, days int) []float64 {
		level, slope := stat.Mean(p.logs[:daysPerWeek], nil), 0.0
		for _, v := range p.logs {
			wrong := v - level - damping*slope
			level += damping*slope + alpha*wrong
			slope = damping*slope + alpha*beta*wrong
		}
		out, rise, damped := make([]float64, days), 0.0, 1.0
		for i := range out {
			damped *= damping
			rise += damped
			out[i] = max(math.Exp(level+rise*slope+p.pattern[(len(p.logs)+i)%daysPerWeek])-p.least, 0)
		}
		return out
	}
}

// weekPattern is the mean difference of each day of the week from the seven days around it:
// neither a trend nor a wandering level is in it.
func weekPattern(days []float64) (pattern [daysPerWeek]float64) {
	const side = daysPerWeek / 2
	var count [daysPerWeek]float64
	for i := side; i+side < len(days); i++ {
		pattern[i%daysPerWeek] += days[i] - stat.Mean(days[i-side:i+side+1], nil)
		count[i%daysPerWeek]++
	}
	floats.Div(pattern[:], count[:])
	return pattern
}
