package meter

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// Texts of stored values are stable, and those of no value say so.
func TestEveryStoredValueHasAName(t *testing.T) {
	named := func(list []string, text func(uint8) string, none string) {
		t.Helper()
		seen := map[string]int{}
		for i := range 256 {
			want := none
			if i < len(list) && (list[i] != "" || i == 0) {
				want = list[i]
			}
			got := text(uint8(i))
			if got != want {
				t.Errorf("value %d is %q, want %q", i, got, want)
			}
			if first, twice := seen[got]; twice && got != none {
				t.Errorf("values %d and %d are both %q", first, i, got)
			}
			seen[got] = i
		}
	}
	named(whyNames[:], func(v uint8) string { return Why(v).String() }, "why?")
	named(energyNames[:], func(v uint8) string { return EnergyWhy(v).String() }, "energy?")
	named(gapNames[:], func(v uint8) string { return GapWhy(v).String() }, "gap?")
	named(bucketNames[:], func(v uint8) string { return Bucket(v).String() }, Bucket(255).String())
	if Bucket(255).String() == Bucket(0).String() {
		t.Error("a bucket that is none has the name of one")
	}
}

// Two amounts by two weights come to the floor of the exact sum, or one more, and
// leave nothing over; whoever has the larger remainder is served first.
func TestEnergyIsApportionedExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		n := 1 + rng.IntN(4)
		rows, owners, wa, wb := make([]Row, n), make([]string, n), make([]uint64, n), make([]uint64, n)
		for i := range rows {
			rows[i].Owner, owners[i] = uint64(rng.IntN(2)*(i+1)), fmt.Sprint(i)
			wa[i], wb[i] = uint64(rng.IntN(3)), uint64(rng.IntN(3))
		}
		wa[rng.IntN(n)]++
		a, b := int64(rng.IntN(12)), int64(rng.IntN(12))
		if sum(wb) == 0 {
			b, wb = 0, nil
		}
		apportionEnergy(0, rows, owners, a, wa, b, wb)
		var total int64
		var lucky, unlucky []*big.Rat
		for i := range rows {
			exact := big.NewRat(a*int64(wa[i]), int64(sum(wa)))
			if wb != nil {
				exact.Add(exact, big.NewRat(b*int64(wb[i]), int64(sum(wb))))
			}
			floor := new(big.Int).Quo(exact.Num(), exact.Denom())
			rest := new(big.Rat).Sub(exact, new(big.Rat).SetInt(floor))
			switch got := rows[i].EnergyMJ - floor.Int64(); got {
			case 0:
				unlucky = append(unlucky, rest)
			case 1:
				lucky = append(lucky, rest)
			default:
				t.Fatalf("%d by %v and %d by %v: row %d has %d, exactly %s", a, wa, b, wb, i, rows[i].EnergyMJ, exact)
			}
			total += rows[i].EnergyMJ
		}
		less := func(x, y *big.Rat) int { return x.Cmp(y) }
		if total != a+b || len(lucky) > 0 && len(unlucky) > 0 && slices.MinFunc(lucky, less).Cmp(slices.MaxFunc(unlucky, less)) < 0 {
			t.Fatalf("%d by %v and %d by %v: %+v", a, wa, b, wb, rows)
		}
	}
}
