package forecast

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/floats"
)

// constant is a tenant that always holds the same; every missing hour is NaN.
func constant(days int, amount float64, missing func(hour int) bool) []float64 {
	hours := make([]float64, days*24)
	for i := range hours {
		if hours[i] = amount; missing != nil && missing(i) {
			hours[i] = math.NaN()
		}
	}
	return hours
}

func TestAConstantSeriesForecastsItself(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, missing := range map[string]func(int) bool{
		"observed":        nil,
		"a lost day":      func(hour int) bool { return hour/24 == 30 },
		"scattered hours": func(int) bool { return rng.IntN(200) == 0 },
		"a lost hour of the week in all weeks": func(hour int) bool {
			return hour%168 == 20
		},
	} {
		for _, amount := range []float64{0, 3.5, 1e6} {
			for _, ahead := range []int{1, 23, 24, 25, 168, 500, MaxHours} {
				f := mustMake(t, constant(70, amount, missing), ahead)
				want := amount * float64(ahead)
				if diff := cmp.Diff(Amount{want, want, want, want, want}, f.Total, near); diff != "" || len(f.Days) != ahead/24 {
					t.Errorf("%s, %v, %d hours: %d days, total (-want +got):\n%s", name, amount, ahead, len(f.Days), diff)
				}
			}
		}
	}
}

// TestUnseenHoursAreNotZeros compares an outage with the same hours as they were, and with
// zeros in their place.
func TestUnseenHoursAreNotZeros(t *testing.T) {
	for _, whole := range simulateFleet("office", 0, 5, 70) {
		lost, zeros := append([]float64(nil), whole...), append([]float64(nil), whole...)
		for i := 60 * 24; i < 64*24; i++ {
			lost[i], zeros[i] = math.NaN(), 0
		}
		want := mustMake(t, whole, 168).Total.Expected
		got, wrong := mustMake(t, lost, 168), mustMake(t, zeros, 168)
		if math.Abs(got.Total.Expected-want) > 0.1*want {
			t.Errorf("with an outage: %v, without %v: want less than a tenth between them", got.Total.Expected, want)
		}
		if math.Abs(wrong.Total.Expected-want) < math.Abs(got.Total.Expected-want) {
			t.Errorf("hours of an outage as zeros give %v, nearer to %v than %v", wrong.Total.Expected, want, got.Total.Expected)
		}
		if got.Backtest.Error1 > 2*mustMake(t, whole, 168).Backtest.Error1 {
			t.Errorf("days of an outage count as errors: %+v", got.Backtest)
		}
	}
}

// TestAnOutageAWeekLeavesIntervals: that no month was wholly observed is no certainty.
func TestAnOutageAWeekLeavesIntervals(t *testing.T) {
	for _, whole := range simulateFleet("office", 6, 5, 70) {
		lost := append([]float64(nil), whole...)
		for i := 30; i < len(lost); i += 168 {
			lost[i] = math.NaN()
		}
		want, got := mustMake(t, whole, 28*24).Total, mustMake(t, lost, 28*24).Total
		if ratio := (got.High80 - got.Low80) / (want.High80 - want.Low80); ratio < 0.6 || ratio > 1.6 {
			t.Errorf("80 %% interval of %v to %v, without the outages %v to %v", got.Low80, got.High80, want.Low80, want.High80)
		}
	}
}

func TestAmountsTimesAFactorGiveItsForecast(t *testing.T) {
	for _, kind := range []string{"office", "research", "steps"} {
		for _, hours := range simulateFleet(kind, 1, 3, 63) {
			times := make([]float64, len(hours))
			for i, v := range hours {
				times[i] = 1000 * v
			}
			want, got := mustMake(t, hours, 200), mustMake(t, times, 200)
			a := want.Total
			scaled := Amount{1000 * a.Expected, 1000 * a.Low80, 1000 * a.High80, 1000 * a.Low95, 1000 * a.High95}
			if diff := cmp.Diff(scaled, got.Total, near); diff != "" {
				t.Errorf("%s: total (-want +got):\n%s", kind, diff)
			}
			if diff := cmp.Diff(want.Backtest, got.Backtest, near); diff != "" {
				t.Errorf("%s: back-test (-want +got):\n%s", kind, diff)
			}
			if diff := cmp.Diff(want, mustMake(t, hours, 200)); diff != "" {
				t.Errorf("%s: a second forecast differs (-first +second):\n%s", kind, diff)
			}
		}
	}
}

// TestBacktestsNeverLookAhead compares what the back-test takes for the forecasts of past
// days with the forecasts made from those days.
func TestBacktestsNeverLookAhead(t *testing.T) {
	for _, hours := range simulateFleet("research", 2, 3, 70) {
		s := newSeries(hours, 168)
		trial := newTrial(s)
		for day := MinDays; day < 70; day++ {
			f := mustMake(t, hours[:day*24], 168)
			for i, a := range f.Days {
				if day+i < 70 && math.Abs(s.days[day+i]-trial.mixed[i][day-fewest]-a.Expected) > 1e-9*a.Expected {
					t.Errorf("from day %d: %v for day %d, and %v in the back-test", day, a.Expected, day+i,
						s.days[day+i]-trial.mixed[i][day-fewest])
				}
			}
		}
	}
}

// TestJudgedIntervalsAreThoseOfTheTime: a day more adds to the back-test whether it was inside
// the intervals that were forecast a day and seven days earlier.
func TestJudgedIntervalsAreThoseOfTheTime(t *testing.T) {
	for _, hours := range simulateFleet("office", 2, 3, 70) {
		forecasts := map[int]Forecast{}
		for day := MinDays; day <= 70; day++ {
			forecasts[day] = mustMake(t, hours[:day*24], 168)
		}
		for day := MinDays + 8; day < 70; day++ { // from then on both are judged
			was, inside := floats.Sum(hours[day*24:(day+1)*24]), 0.0
			for _, a := range []Amount{forecasts[day].Days[0], forecasts[day-6].Days[6]} {
				if was >= a.Low80 && was <= a.High80 {
					inside++
				}
			}
			before, after := forecasts[day].Backtest, forecasts[day+1].Backtest
			got := after.Inside80*float64(after.Judged) - before.Inside80*float64(before.Judged)
			if math.Abs(got-inside) > 1e-6 || after.Judged != before.Judged+2 || after.Origins != before.Origins+1 {
				t.Errorf("day %d: %v inside of %d, want %v of 2", day, got, after.Judged-before.Judged, inside)
			}
		}
	}
}

func TestGrowthGoesOn(t *testing.T) {
	hours := make([]float64, 70*24)
	for i := range hours {
		hours[i] = math.Pow(1.02, float64(i/24))
	}
	f := mustMake(t, hours, 168)
	want := 24 * math.Pow(1.02, 76)
	if got := f.Days[6].Expected; math.Abs(got-want) > want-floats.Sum(hours[69*24:]) || f.Backtest.Error7 > 0.8 {
		t.Errorf("in a week %v (back-test %v), want %v: nearer than the last day, and than last week", got,
			f.Backtest.Error7, want)
	}
}

func TestMissingHoursAreThoseOfTheWeek(t *testing.T) {
	hours := make([]float64, 6*168)
	for i := range hours {
		hours[i] = float64(i % 168)
	}
	want := append([]float64(nil), hours...)
	hours[10], hours[3*168+10], hours[6*168-1] = math.NaN(), math.NaN(), math.NaN()
	for week := range 6 {
		hours[week*168+50], want[week*168+50] = math.NaN(), (6*167*84.0-10-10-167-6*50)/(6*168-9)
	}
	if diff := cmp.Diff(want, fill(hours), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("filled (-want +got):\n%s", diff)
	}
}

func TestIntervalsAreNested(t *testing.T) {
	for _, kind := range []string{"office", "growing", "research", "steps"} {
		for _, hours := range simulateFleet(kind, 3, 5, 50) {
			f := mustMake(t, hours, 20*24+5)
			for _, a := range append(f.Days, f.Total) {
				if !slices.IsSorted([]float64{0, a.Low95, a.Low80, a.Expected, a.High80, a.High95}) {
					t.Errorf("%s: %+v", kind, a)
				}
			}
		}
	}
}

// TestAPartOfADayHasItsOwnShare: a tenant that works from 08:00 to 18:00 has used nothing by
// 08:00 of the day after.
func TestAPartOfADayHasItsOwnShare(t *testing.T) {
	hours := make([]float64, 56*24)
	for i := range hours {
		if i%24 >= 8 && i%24 < 18 {
			hours[i] = 2
		}
	}
	for ahead, want := range map[int]float64{8: 0, 13: 10, 24: 20, 32: 20, 37: 30} {
		if got := mustMake(t, hours, ahead).Total.Expected; math.Abs(got-want) > 1e-6 {
			t.Errorf("%d hours: %v, want %v", ahead, got, want)
		}
	}
	for ahead, want := range map[int]float64{3: 0, 8: 10, 24: 20} { // from 05:00 on
		if got := mustMake(t, hours[:55*24+5], ahead).Total.Expected; math.Abs(got-want) > 1e-6 {
			t.Errorf("%d hours from 05:00 on: %v, want %v", ahead, got, want)
		}
	}
}

func TestWhatCantBeForecast(t *testing.T) {
	outage := constant(MinDays, 1, func(hour int) bool { return hour == 5 })
	for name, hours := range map[string][]float64{
		"none": nil, "four weeks but an hour": constant(MinDays, 1, nil)[1:], "an hour of four weeks not observed": outage,
	} {
		if _, err := Make(hours, 24); !errors.Is(err, ErrTooShort) {
			t.Errorf("%s: error %v, want ErrTooShort", name, err)
		}
	}
	four := constant(MinDays, 1, nil)
	mustMake(t, four, MaxHours)
	for _, ahead := range []int{-1, 0, MaxHours + 1} {
		if _, err := Make(four, ahead); err == nil || errors.Is(err, ErrTooShort) {
			t.Errorf("%d hours ahead: error %v", ahead, err)
		}
	}
	for _, v := range []float64{-1, math.Inf(1), math.Inf(-1)} {
		hours := constant(MinDays, 1, nil)
		hours[7] = v
		if _, err := Make(hours, 24); err == nil || errors.Is(err, ErrTooShort) {
			t.Errorf("an hour with %v: error %v", v, err)
		}
	}
}

func BenchmarkMake(b *testing.B) {
	hours := simulateFleet("office", 4, 1, 70)[0]
	for b.Loop() {
		mustMake(b, hours, MaxHours)
	}
}
