package forecast

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

const (
	// sharpness is the power of the inverse error that is a method's weight.
	sharpness = 8
	// leastPart is the least amount, as a part of the mean, that errors are compared with.
	leastPart = 0.05
	// enough is how many errors an interval has to be of for its share to be judged.
	enough = 10
)

// Backtest is how wrong the forecasts from past days were, each made with what was known
// then, weights and intervals included.
type Backtest struct {
	Origins int // the days from which forecasts were made
	// Error1 and Error7 are the mean absolute errors of the first and of the seventh day
	// ahead, divided by those of the seasonal naive method; NaN if that one had none.
	Error1, Error7 float64
	// Inside80 is the share of those days that were inside their 80 % interval, of the Judged
	// ones whose interval was of ten errors or more; NaN if there were none.
	Inside80 float64
	Judged   int
}

// trial is the errors (actual − forecast) from past days, the origins; NaN where the day
// isn't over or wasn't wholly observed.
type trial struct {
	*series
	span    int           // days of the totals that are compared
	ahead   [][][]float64 // errors by method, origin and distance
	mixed   [][]float64   // of the weighted mean of the methods, by distance and origin
	sizes   [][]float64   // the same without sign, as parts of the amount
	totals  []float64     // such sizes of the totals of a span's observed days, by origin
	weights [][]float64   // for the next forecast, by distance and method
}

func newTrial(s *series) *trial {
	t := &trial{
		series: s, ahead: make([][][]float64, len(methods)),
		mixed: make([][]float64, s.distances), sizes: make([][]float64, s.distances),
	}
	t.span = max(min(s.full, (len(s.days)-fewest)/2), 1)
	known := newScores(s.distances)
	for origin := fewest; ; origin++ {
		known.learn(t.ahead, origin-fewest)
		t.weights = known.weights(stat.Mean(s.days[:origin], nil))
		if origin == len(s.days) {
			return t
		}
		t.try(origin)
	}
}

// try makes the forecasts from a past day.
func (t *trial) try(origin int) {
	p := newPast(t.hours[:origin*hoursPerDay], t.days[:origin])
	expected := make([]float64, t.distances)
	for m := range methods {
		amounts := methods[m].of(p, t.distances)
		for i, v := range amounts {
			expected[i] += t.weights[i][m] * v
			amounts[i] = t.actual(origin+i) - v
		}
		t.ahead[m] = append(t.ahead[m], amounts)
	}
	wrong, total, observed := 0.0, 0.0, 0
	for i, v := range expected {
		mixed := t.actual(origin+i) - v
		t.mixed[i] = append(t.mixed[i], mixed)
		t.sizes[i] = append(t.sizes[i], math.Abs(mixed)/p.scale(v, 1))
		if i < t.span && !math.IsNaN(mixed) {
			wrong, total, observed = wrong+mixed, total+v, observed+1
		}
	}
	size := math.NaN()
	if observed > 0 {
		size = math.Abs(wrong) / p.scale(total, observed)
	}
	t.totals = append(t.totals, size)
}

// scale is what the error of an amount of some days is compared with: errors grow with the
// amount.
func (p *past) scale(amount float64, days int) float64 {
	return max(amount, leastPart*stat.Mean(p.days, nil)*float64(days), 1e-9)
}

// scores are the sums of absolute errors that are known, and their numbers, by distance and
// method.
type scores struct{ sum, count [][]float64 }

func newScores(distances int) *scores {
	k := &scores{}
	for range distances {
		k.sum, k.count = append(k.sum, make([]float64, len(methods))), append(k.count, make([]float64, len(methods)))
	}
	return k
}

// learn adds the errors of the day before an origin.
func (k *scores) learn(ahead [][][]float64, origin int) {
	for i := range min(len(k.sum), origin) {
		for m := range methods {
			if wrong := math.Abs(ahead[m][origin-1-i][i]); !math.IsNaN(wrong) {
				k.sum[i][m] += wrong
				k.count[i][m]++
			}
		}
	}
}

// weights are those of the methods, which sum to 1: one set for tomorrow, one for the rest of
// the week and one for what is later. Without errors all methods weigh the same. mean is of
// the days.
func (k *scores) weights(mean float64) (byDistance [][]float64) {
	for _, part := range [][2]int{{0, 1}, {1, daysPerWeek}, {daysPerWeek, len(k.sum)}} {
		w := make([]float64, len(methods))
		for m := range w {
			w[m] = max(1e-6*mean, 1e-12)
			for i := part[0]; i < part[1]; i++ {
				w[m] += k.sum[i][m] / max(k.count[i][m], 1)
			}
		}
		least := slices.Min(w)
		for m := range w {
			w[m] = math.Pow(least/w[m], sharpness)
		}
		floats.Scale(1/floats.Sum(w), w)
		for range part[1] - part[0] {
			byDistance = append(byDistance, w)
		}
	}
	return byDistance
}

// forecast is the weighted mean of all methods from the end of the history.
func (t *trial) forecast() Forecast {
	p, now, rest := newPast(t.hours, t.days), len(t.totals), t.restShare()
	expected, shares := make([]float64, t.distances), make([]float64, len(methods))
	for m := range methods {
		for i, v := range methods[m].of(p, t.distances) {
			expected[i] += t.weights[i][m] * v
			switch {
			case i < t.full:
				shares[m] += t.weights[i][m] * v
			case i == t.full:
				shares[m] += t.weights[i][m] * v * rest
			}
		}
	}
	total, best := floats.Sum(shares), floats.MaxIdx(shares)
	f := Forecast{Method: methods[best].name, Weight: shares[best] / max(total, 1e-300), Backtest: t.backtest()}
	for i := range t.full {
		known := knownAt(t.sizes[min(i, now/2)], now, min(i, now/2)+1)
		f.Days = append(f.Days, interval(expected[i], p.scale(expected[i], 1), known))
	}
	f.Total = interval(total, p.scale(total, t.full+1), knownAt(t.totals, now, t.span))
	return f
}

// knownAt is the sizes, in order, of the errors that were known at an origin: of forecasts
// of days that were over by then. span is how many days a forecast reaches.
func knownAt(sizes []float64, origin, span int) []float64 {
	known := slices.DeleteFunc(slices.Clone(sizes[:max(origin-span+1, 0)]), math.IsNaN)
	slices.Sort(known)
	return known
}

// interval is an amount with the conformal quantiles of the sizes of errors.
func interval(amount, scale float64, sizes []float64) Amount {
	half80, half95 := scale*quantile(sizes, 0.8), scale*quantile(sizes, 0.95)
	return Amount{amount, max(amount-half80, 0), amount + half80, max(amount-half95, 0), amount + half95}
}

// quantile is the conformal one: of sizes in order, the smallest that a further one exceeds
// with at most the probability 1 − level. Too few of them for that give the greatest; none,
// which MinDays excludes, NaN.
func quantile(sizes []float64, level float64) float64 {
	if len(sizes) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(float64(len(sizes)+1) * level))
	return sizes[min(rank, len(sizes))-1]
}

func (t *trial) backtest() Backtest {
	b, inside := Backtest{Origins: len(t.totals)}, 0
	for _, i := range []int{0, daysPerWeek - 1} {
		for origin, size := range t.sizes[i] {
			known := knownAt(t.sizes[i], origin, i+1)
			if len(known) < enough || math.IsNaN(size) {
				continue
			}
			b.Judged++
			if size <= quantile(known, 0.8) {
				inside++
			}
		}
	}
	b.Inside80 = float64(inside) / float64(b.Judged)
	b.Error1, b.Error7 = t.toNaive(0), t.toNaive(daysPerWeek-1)
	return b
}

// toNaive is the mean absolute error at a distance, divided by that of the seasonal naive
// method.
func (t *trial) toNaive(distance int) float64 {
	ours, naive := 0.0, 0.0
	for origin, wrong := range t.mixed[distance] {
		if !math.IsNaN(wrong) {
			ours += math.Abs(wrong)
			naive += math.Abs(t.ahead[0][origin][distance])
		}
	}
	if naive == 0 {
		return math.NaN()
	}
	return ours / naive
}
