package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// simulatedTenants are hourly amounts of the tenants of a fleet.
func simulatedTenants(fleet string, seed uint64, days int) (tenants [][]float64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	for range 20 {
		level, growth := 5+20*rng.Float64(), 0.0
		if fleet == "growing" {
			growth = 0.02 * rng.NormFloat64()
		}
		var hours []float64
		drift := 0.0
		night := rng.IntN(2) == 0
		for d := range days {
			drift = 0.9*drift + 0.08*rng.NormFloat64()
			busy := level * math.Exp(growth*float64(d)+drift) * math.Exp(0.15*rng.NormFloat64())
			weekend := d%7 >= 5
			for h := range 24 {
				v := 0.1 * busy
				switch {
				case fleet == "services":
					v = busy * (1 + 0.3*math.Sin(2*math.Pi*float64(h)/24))
				case !weekend && h >= 8 && h < 18:
					v = busy
				case night && h < 4:
					v = level * 0.8
				}
				hours = append(hours, math.Max(0, v*(1+0.1*rng.NormFloat64())))
			}
		}
		tenants = append(tenants, hours)
	}
	return tenants
}

// TestBetterThanLastWeek: at one day and at seven, the mean absolute error is at most
// nine tenths of the seasonal naive one, and 80 % intervals hold 75 to 85 % of what came.
func TestBetterThanLastWeek(t *testing.T) {
	for _, fleet := range []string{"office", "growing", "services"} {
		var wrong, naive [2]float64
		inside, all := 0, 0
		for seed := range uint64(3) {
			for _, hours := range simulatedTenants(fleet, seed, 120) {
				for day := 70; day+7 <= 120; day += 3 {
					f, err := Make(hours[:day*24], 7)
					if err != nil {
						t.Fatal(err)
					}
					for i, ahead := range []int{0, 6} {
						was, before := 0.0, 0.0
						for h := range 24 {
							was += hours[(day+ahead)*24+h]
							before += hours[(day+ahead-7)*24+h]
						}
						wrong[i] += math.Abs(was - f.Days[ahead].Amount)
						naive[i] += math.Abs(was - before)
						if all++; was >= f.Days[ahead].Low80 && was <= f.Days[ahead].High80 {
							inside++
						}
					}
				}
			}
		}
		covered := float64(inside) / float64(all)
		t.Logf("%s: error ÷ seasonal naive %.2f at 1 day, %.2f at 7; 80 %% intervals hold %.1f %%", fleet, wrong[0]/naive[0], wrong[1]/naive[1], 100*covered)
		if wrong[0] > 0.9*naive[0] || wrong[1] > 0.9*naive[1] || covered < 0.75 || covered > 0.85 {
			t.Errorf("%s: too wrong", fleet)
		}
	}
}
