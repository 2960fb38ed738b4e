package forecast

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/floats"
)

func mustMake(t testing.TB, hours []float64, ahead int) Forecast {
	t.Helper()
	f, err := Make(hours, ahead)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// near takes floats for equal that differ by rounding, and NaN for NaN.
var near = cmp.Options{cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.EquateNaNs()}

// score is what one kind of fleet gives.
type score struct {
	wrong, naive  [3]float64 // tomorrow, the seventh day, 28 days together
	in80, in95, n [3]float64
}

func (s *score) judge(hours []float64, day, history int, f Forecast) {
	const ahead = 28
	days := func(from, count int) float64 { return floats.Sum(hours[from*24 : (from+count)*24]) }
	was := [3]float64{days(day, 1), days(day+6, 1), days(day, ahead)}
	naive := [3]float64{days(day-7, 1), days(day-1, 1), days(day-7, 7) * ahead / 7}
	for i, a := range []Amount{f.Days[0], f.Days[6], f.Total} {
		s.wrong[i] += math.Abs(was[i] - a.Expected)
		s.naive[i] += math.Abs(was[i] - naive[i])
		s.n[i]++
		if was[i] >= a.Low80 && was[i] <= a.High80 {
			s.in80[i]++
		}
		if was[i] >= a.Low95 && was[i] <= a.High95 {
			s.in95[i]++
		}
	}
}

// TestBetterThanLastWeek holds the figures of docs/reference/forecast.md. The methods, their
// parameters and the weights were chosen with seeds 0 to 7; these are others.
func TestBetterThanLastWeek(t *testing.T) {
	const days, history, tenants, seeds = 120, 70, 12, 8
	for _, c := range []struct {
		fleet          string
		error1, error7 float64 // at most
		total80        float64 // of 28 days together, at least
	}{
		{"office", 0.9, 0.9, 0.7},
		{"services", 0.9, 0.9, 0.7},
		{"research", 0.9, 0.9, 0.7},
		{"growing", 0.9, 1.05, 0.65},
		{"steps", 0.9, 1.25, 0.55}, // a step that nobody knows of: last week is as good a guess as any
	} {
		var s score
		for seed := uint64(5000); seed < 5000+seeds; seed++ {
			for _, hours := range simulateFleet(c.fleet, seed, tenants, days) {
				for day := history; day+28 <= days; day += 5 {
					s.judge(hours, day, history, mustMake(t, hours[(day-history)*24:day*24], 28*24))
				}
			}
		}
		error1, error7, error28 := s.wrong[0]/s.naive[0], s.wrong[1]/s.naive[1], s.wrong[2]/s.naive[2]
		share := func(in, n float64) float64 { return 100 * in / n }
		covered := (s.in80[0] + s.in80[1]) / (s.n[0] + s.n[1])
		t.Logf("%s: error ÷ seasonal naive %.2f at 1 day, %.2f at 7, %.2f of 28 together; inside 80 %%: %.0f, %.0f, "+
			"%.0f %%; inside 95 %%: %.0f, %.0f, %.0f %%; %.0f forecasts", c.fleet, error1, error7, error28,
			share(s.in80[0], s.n[0]), share(s.in80[1], s.n[1]), share(s.in80[2], s.n[2]),
			share(s.in95[0], s.n[0]), share(s.in95[1], s.n[1]), share(s.in95[2], s.n[2]), s.n[0])
		if error1 > c.error1 || error7 > c.error7 || covered < 0.75 || covered > 0.85 {
			t.Errorf("%s: error ÷ seasonal naive %.3f at 1 day, %.3f at 7; 80 %% intervals hold %.1f %%", c.fleet, error1,
				error7, 100*covered)
		}
		if total := s.in80[2] / s.n[2]; total < c.total80 || total > 0.85 {
			t.Errorf("%s: 80 %% intervals of 28 days together hold %.1f %%", c.fleet, 100*total)
		}
	}
}
