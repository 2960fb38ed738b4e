package tail

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestProbabilityOfKnownTails: the estimate at the true 99.8 % quantile of distributions
// with known tails is 0.002 on average, within a factor.
func TestProbabilityOfKnownTails(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, c := range map[string]struct {
		draw     func() float64
		quantile float64 // of 0.998
	}{
		"uniform":     {rng.Float64, 0.998},
		"exponential": {rng.ExpFloat64, -math.Log(0.002)},
		"normal":      {rng.NormFloat64, 2.878},
		"Pareto 1/4":  {func() float64 { return (math.Pow(rng.Float64(), -0.25) - 1) * 4 }, (math.Pow(0.002, -0.25) - 1) * 4},
	} {
		var sum float64
		const rounds = 2000
		for range rounds {
			sample := make([]float64, 450)
			for i := range sample {
				sample[i] = c.draw()
			}
			fitted := New(sample, 1e-6)
			sum += math.Log(fitted.P(c.quantile))
		}
		if mean := math.Exp(sum / rounds); mean < 0.0005 || mean > 0.008 {
			t.Errorf("%s: probability of the 99.8 %% quantile is %.5f, want about 0.002", name, mean)
		}
	}
}

// TestNeverIncreases: of random samples, with ties and zeros, too.
func TestNeverIncreases(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		sample := make([]float64, rng.IntN(60))
		for i := range sample {
			sample[i] = math.Floor(rng.ExpFloat64() * float64(rng.IntN(4)))
		}
		fitted := New(sample, 0.5)
		last := math.Inf(1)
		for v := -1.0; v < 50; v += 0.25 {
			p := fitted.P(v)
			if p > last || p <= 0 || p > 1 || math.IsNaN(p) {
				t.Fatalf("seed %d: P(%g) = %g after %g", seed, v, p, last)
			}
			last = p
		}
	}
}

// TestZerosOnly: what was never seen is improbable, and the more so the greater it is.
func TestZerosOnly(t *testing.T) {
	fitted := New(make([]float64, 400), 0.5)
	if p := fitted.P(0); p != 1 {
		t.Errorf("P(0) = %g, want 1", p)
	}
	if p := fitted.P(2); p > 0.002 {
		t.Errorf("P(2) = %g, want at most 0.002", p)
	}
	if short := New(make([]float64, 3), 0.5); short.P(0.5) < fitted.P(0.5) {
		t.Errorf("three zeros say more than 400: %g, %g", short.P(0.5), fitted.P(0.5))
	}
}
