package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

const (
	hoursPerDay = 24
	daysPerWeek = 7
	// origins is the number of days from which each method is tried.
	origins = 28
	// fewest is the least number of days that a method begins with.
	fewest = 14
	// MaxDays is the longest forecast.
	MaxDays = 31
)

// Day is an amount ahead with its intervals, never below 0.
type Day struct {
	Amount        float64
	Low80, High80 float64
	Low95, High95 float64
}

// Forecast is what is expected, and how wrong the method was so far.
type Forecast struct {
	Method string
	Days   []Day
	Total  Day // of all days
	// Error1 and Error7 are the mean absolute errors of the amount one and seven days
	// ahead; Naive1 and Naive7 those of the seasonal naive method. Origins is the number of
	// forecasts that they are of.
	Error1, Error7, Naive1, Naive7 float64
	Origins                        int
}

// method forecasts the days after those that it gets.
type method struct {
	name string
	of   func(h history, days int) []float64
}

// The order is that of preference among equals.
var methods = []method{
	{"seasonal naive", seasonalNaive},
	{"hour-of-week median", weekMedian},
	{"exponential smoothing, 0.05", smoothing(0.05, 0)},
	{"exponential smoothing, 0.1", smoothing(0.1, 0)},
	{"exponential smoothing, 0.2", smoothing(0.2, 0)},
	{"exponential smoothing, 0.5", smoothing(0.5, 0)},
	{"damped trend, 0.2", smoothing(0.2, 0.1)},
	{"damped trend, 0.5", smoothing(0.5, 0.1)},
}

// history is whole days, as hours and as days.
type history struct {
	hours, days []float64
}

func (h history) until(day int) history {
	return history{h.hours[:day*hoursPerDay], h.days[:day]}
}

// Make forecasts the days after the last. hours are those of whole days, oldest first.
func Make(hours []float64, days int) (Forecast, error) {
	switch {
	case len(hours)%hoursPerDay != 0:
		return Forecast{}, fmt.Errorf("%d hours are not whole days", len(hours))
	case len(hours) < (fewest+daysPerWeek)*hoursPerDay:
		return Forecast{}, fmt.Errorf("%d days are too few for a forecast: want at least %d", len(hours)/hoursPerDay,
			fewest+daysPerWeek)
	case days < 1 || days > MaxDays:
		return Forecast{}, fmt.Errorf("days %d: want 1 to %d", days, MaxDays)
	case slices.ContainsFunc(hours, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }):
		return Forecast{}, errors.New("an hour's amount is not finite")
	}
	h := history{hours: hours}
	for i := 0; i < len(hours); i += hoursPerDay {
		sum := 0.0
		for _, v := range hours[i : i+hoursPerDay] {
			sum += v
		}
		h.days = append(h.days, sum)
	}
	return h.best(days), nil
}

// trial is a method's forecasts from each origin.
type trial struct {
	method
	ahead [][]float64 // errors by distance
	total []float64   // errors of the sum of all days
}

// between is the mean absolute error at the distances [from, to).
func (t *trial) between(from, to int) float64 {
	return meanAbsolute(slices.Concat(t.ahead[from:to]...))
}

// best takes, for tomorrow, for the rest of the week and for what is later, the method that
// was best there.
func (h history) best(days int) Forecast {
	var trials []trial
	for _, m := range methods {
		trials = append(trials, h.try(m, days))
	}
	naive := &trials[0]
	f := Forecast{Naive1: naive.between(0, 1), Naive7: naive.between(daysPerWeek-1, daysPerWeek), Origins: len(naive.total)}
	sum := 0.0
	var wrong []float64
	for _, part := range [][2]int{{0, 1}, {1, daysPerWeek}, {daysPerWeek, max(days, daysPerWeek)}} {
		from, to := part[0], part[1]
		if from == to {
			continue
		}
		chosen := &trials[0]
		for i := range trials {
			if trials[i].between(from, to) < chosen.between(from, to) {
				chosen = &trials[i]
			}
		}
		switch from {
		case 0:
			f.Method, f.Error1 = chosen.name, chosen.between(0, 1)
		case 1:
			f.Error7 = chosen.between(daysPerWeek-1, daysPerWeek)
			f.Method += "; " + chosen.name
		}
		amounts := chosen.of(h, to)
		for i := from; i < min(to, days); i++ {
			amount := max(amounts[i], 0)
			sum += amount
			f.Days = append(f.Days, interval(amount, chosen.ahead[i]))
		}
		wrong = chosen.total
	}
	f.Total = interval(sum, wrong)
	return f
}

// try makes a method's forecasts of days that are known by now.
func (h history) try(m method, days int) trial {
	distances := max(days, daysPerWeek)
	t := trial{method: m, ahead: make([][]float64, distances)}
	for origin := max(fewest, len(h.days)-origins); origin < len(h.days); origin++ {
		guess := m.of(h.until(origin), distances)
		sum := 0.0
		for i := range distances {
			if origin+i >= len(h.days) {
				break
			}
			wrong := h.days[origin+i] - max(guess[i], 0)
			t.ahead[i] = append(t.ahead[i], wrong)
			if sum += wrong; i == days-1 {
				t.total = append(t.total, sum)
			}
		}
	}
	return t
}

// interval is an amount with the quantiles of the errors at its distance. Too few errors
// for a quantile give the greatest one.
func interval(amount float64, wrong []float64) Day {
	size := make([]float64, len(wrong))
	for i, w := range wrong {
		size[i] = math.Abs(w)
	}
	slices.Sort(size)
	at := func(level float64) float64 {
		if len(size) == 0 {
			return amount
		}
		rank := int(math.Ceil(float64(len(size)+1) * level))
		return size[min(rank, len(size))-1]
	}
	d := Day{Amount: amount}
	d.Low80, d.High80 = max(amount-at(0.8), 0), amount+at(0.8)
	d.Low95, d.High95 = max(amount-at(0.95), 0), amount+at(0.95)
	return d
}

func meanAbsolute(wrong []float64) float64 {
	if len(wrong) == 0 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, w := range wrong {
		sum += math.Abs(w)
	}
	return sum / float64(len(wrong))
}

func seasonalNaive(h history, days int) []float64 {
	out := make([]float64, days)
	for i := range out {
		out[i] = h.days[len(h.days)-daysPerWeek+i%daysPerWeek]
	}
	return out
}

// weekMedian is the sum of the medians of the same hours of the week, over four weeks.
func weekMedian(h history, days int) []float64 {
	out := make([]float64, days)
	for i := range out {
		for hour := range hoursPerDay {
			var same []float64
			for back := daysPerWeek - i%daysPerWeek; back <= len(h.days) && len(same) < 4; back += daysPerWeek {
				same = append(same, h.hours[(len(h.days)-back)*hoursPerDay+hour])
			}
			slices.Sort(same)
			out[i] += (same[(len(same)-1)/2] + same[len(same)/2]) / 2
		}
	}
	return out
}

// smoothing is exponential smoothing of the logarithms of what the weekly pattern leaves,
// with a damped trend or without one: a tenant grows, and varies, in proportion to its
// size. alpha and beta are the weights of a day's error in the level and in the trend.
func smoothing(alpha, beta float64) func(history, int) []float64 {
	return func(h history, days int) []float64 {
		least := max(0.05*stat.Mean(h.days, nil), 1e-9)
		logs := make([]float64, len(h.days))
		for i, v := range h.days {
			logs[i] = math.Log(max(v, 0) + least)
		}
		pattern := weekPattern(logs)
		level, slope := stat.Mean(logs[:daysPerWeek], nil), 0.0
		for i, v := range logs {
			wrong := v - pattern[i%daysPerWeek] - (level + damping*slope)
			level += damping*slope + alpha*wrong
			slope = damping*slope + beta*alpha*wrong
		}
		out, damped := make([]float64, days), 0.0
		for i := range out {
			damped += math.Pow(damping, float64(i+1))
			out[i] = math.Exp(level+damped*slope+pattern[(len(logs)+i)%daysPerWeek]) - least
		}
		return out
	}
}

const damping = 0.9

func weekPattern(days []float64) (pattern [daysPerWeek]float64) {
	mean := stat.Mean(days, nil)
	var counts [daysPerWeek]float64
	for i, v := range days {
		pattern[i%daysPerWeek] += v - mean
		counts[i%daysPerWeek]++
	}
	for i := range pattern {
		pattern[i] /= counts[i]
	}
	return pattern
}
