package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

const (
	hoursPerDay = 24
	daysPerWeek = 7
	// fewest is the least number of days that a method begins with.
	fewest = 2 * daysPerWeek
	// MinDays is the shortest history: two weeks to begin with, and two of origins.
	MinDays = fewest + 2*daysPerWeek
	// MaxHours is the longest forecast: a month of 31 days with an hour more or less.
	MaxHours = 32 * hoursPerDay
)

// ErrTooShort says that there is too little history for a forecast.
var ErrTooShort = errors.New("the history is too short for a forecast")

// Amount is an amount ahead with its intervals, never below 0.
type Amount struct {
	Expected      float64
	Low80, High80 float64
	Low95, High95 float64
}

// Forecast is what is expected, and how wrong such forecasts were so far.
type Forecast struct {
	Total    Amount   // of all hours ahead
	Days     []Amount // of each whole 24 hours of them
	Method   string   // the one that weighs most in the total
	Weight   float64  // its share of the total
	Backtest Backtest
}

// Make forecasts the hours after the last of a history, ahead of them, 1 to MaxHours. The
// history begins with the first hour that belongs to it; an earlier 0 would be an amount.
func Make(hours []float64, ahead int) (Forecast, error) {
	if ahead < 1 || ahead > MaxHours {
		return Forecast{}, fmt.Errorf("forecast %d hours: want 1 to %d", ahead, MaxHours)
	}
	for _, v := range hours {
		if math.IsInf(v, 0) || v < 0 {
			return Forecast{}, fmt.Errorf("forecast from an hour with the amount %v: want 0 or more", v)
		}
	}
	s := newSeries(hours, ahead)
	observed := 0
	for _, whole := range s.whole {
		if whole {
			observed++
		}
	}
	if observed < MinDays {
		return Forecast{}, fmt.Errorf("%w: %d whole days were observed, want %d", ErrTooShort, observed, MinDays)
	}
	return newTrial(s).forecast(), nil
}

// series is a history of whole days, which end where the forecast begins, and what is asked.
type series struct {
	hours, days []float64 // the missing ones filled in
	whole       []bool    // the day has no missing hour
	full, rest  int       // whole days ahead, and the hours after them
	distances   int       // days ahead, at least a week
}

func newSeries(hours []float64, ahead int) *series {
	hours = hours[len(hours)%hoursPerDay:]
	s := &series{hours: fill(hours), full: ahead / hoursPerDay, rest: ahead % hoursPerDay}
	s.distances = max(s.full+1, daysPerWeek)
	for i := 0; i < len(hours); i += hoursPerDay {
		s.days = append(s.days, floats.Sum(s.hours[i:i+hoursPerDay]))
		s.whole = append(s.whole, !slices.ContainsFunc(hours[i:i+hoursPerDay], math.IsNaN))
	}
	return s
}

// fill replaces missing hours by the median of the same hour of the week: of the last four
// weeks that have it, else of the next four; else by the mean of all hours.
func fill(hours []float64) []float64 {
	const week = daysPerWeek * hoursPerDay
	seen := slices.DeleteFunc(slices.Clone(hours), math.IsNaN)
	out := slices.Clone(hours)
	for i := range out {
		if !math.IsNaN(hours[i]) || len(seen) == 0 {
			continue
		}
		same := every(hours, i, -week)
		if len(same) == 0 {
			same = every(hours, i, week)
		}
		if len(same) == 0 {
			out[i] = stat.Mean(seen, nil)
			continue
		}
		out[i] = median(same)
	}
	return out
}

// every is the next four amounts from an hour on, in steps.
func every(hours []float64, i, step int) (amounts []float64) {
	for i += step; i >= 0 && i < len(hours) && len(amounts) < 4; i += step {
		if !math.IsNaN(hours[i]) {
			amounts = append(amounts, hours[i])
		}
	}
	return amounts
}

// actual is a day's amount; NaN if it isn't over or not wholly observed.
func (s *series) actual(day int) float64 {
	if day >= len(s.days) || !s.whole[day] {
		return math.NaN()
	}
	return s.days[day]
}

// restShare is the share of a day that its first hours have, those with which the total ends,
// in all days of its weekday.
func (s *series) restShare() float64 {
	first, all := 0.0, 0.0
	for day := (len(s.days) + s.full) % daysPerWeek; day < len(s.days); day += daysPerWeek {
		first += floats.Sum(s.hours[day*hoursPerDay : day*hoursPerDay+s.rest])
		all += s.days[day]
	}
	if all == 0 {
		return float64(s.rest) / hoursPerDay
	}
	return first / all
}
