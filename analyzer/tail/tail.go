package tail

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// level is the quantile above which the Pareto distribution holds.
const level = 0.95

// least is the smallest probability that P returns.
const least = 1e-12

// Tail is what a sample says of greater values.
type Tail struct {
	sorted       []float64
	threshold    float64 // the sample's 95 % quantile
	above        float64 // the share of values above the threshold
	shape, scale float64
}

// New fits the tail of a sample, which it sorts in place and keeps. floor is the least
// scale, in the sample's unit: the difference that means nothing. It must be positive.
func New(sample []float64, floor float64) Tail {
	slices.Sort(sample)
	t := Tail{sorted: sample, scale: floor, above: 1}
	n := len(sample)
	if n == 0 {
		return t
	}
	t.threshold = stat.Quantile(level, stat.Empirical, sample, nil)
	first, _ := slices.BinarySearchFunc(sample, t.threshold, func(a, b float64) int {
		if a <= b {
			return -1
		}
		return 1
	})
	excesses := make([]float64, 0, n-first)
	for _, v := range sample[first:] {
		excesses = append(excesses, v-t.threshold)
	}
	// One value more than was seen: that none is above the threshold is no proof that
	// none will be.
	t.above = float64(len(excesses)+1) / float64(n+1)
	if len(excesses) > 1 {
		mean, variance := stat.MeanVariance(excesses, nil)
		ratio := mean * mean / max(variance, floor*floor)
		t.shape = min(max((1-ratio)/2, 0), 0.5)
		t.scale = max(mean*(1-t.shape), floor)
	}
	return t
}

// P is the probability of a value of at least v.
func (t *Tail) P(v float64) float64 {
	n := len(t.sorted)
	if n > 0 && v <= t.threshold {
		below, _ := slices.BinarySearch(t.sorted, v)
		return float64(n-below+1) / float64(n+1)
	}
	excess := v - t.threshold
	if n == 0 {
		excess = max(v, 0)
	}
	var survival float64
	if t.shape == 0 {
		survival = math.Exp(-excess / t.scale)
	} else {
		survival = math.Pow(1+t.shape*excess/t.scale, -1/t.shape)
	}
	return max(t.above*survival, least)
}
