package rating

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
)

// What the environment says of the random cases: how many, and the seed of the
// first; the others have the seeds that follow.
const (
	casesVariable = "GPUTALLY_PROPERTY_CASES"
	seedVariable  = "GPUTALLY_PROPERTY_SEED"
	longCases     = 100_000
	shortCases    = 10_000
	// enoughCases is from where on all that cases should try must have been tried.
	enoughCases = 10_000
)

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	if text == "random" {
		return rand.Uint64N(1_000_000_000_000)
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, want a number or random", variable, text)
	}
	return value
}

// TestRaterEqualsTheSlowModel rates random months by the rater and by the slow
// model: invoices, effects, projects, the platform's account and distribution
// are equal, to the last place.
func TestRaterEqualsTheSlowModel(t *testing.T) {
	t.Parallel()
	cases := uint64(longCases)
	if testing.Short() {
		cases = shortCases
	}
	cases, first := number(t, casesVariable, cases), number(t, seedVariable, 0)
	t.Logf("%d cases, %s=%d", cases, seedVariable, first)
	var next atomic.Uint64
	var failed sync.Map
	noted := make([]map[string]int, runtime.GOMAXPROCS(0))
	var workers sync.WaitGroup
	for i := range noted {
		noted[i] = map[string]int{}
		workers.Go(func() {
			for at := next.Add(1) - 1; at < cases; at = next.Add(1) - 1 {
				if diff := compare(newGenerator(first+at).testCase(), noted[i]); diff != "" {
					failed.Store(first+at, at+1)
					next.Store(cases)
				}
			}
		})
	}
	workers.Wait()
	failed.Range(func(seed, count any) bool {
		t.Errorf("case %d, %s", count, report(seed.(uint64)))
		return true
	})
	for _, more := range noted[1:] {
		mergeNotes(noted[0], more)
	}
	if cases >= enoughCases && !t.Failed() {
		checkCoverage(t, noted[0])
	}
}

func checkCoverage(t *testing.T, noted map[string]int) {
	t.Helper()
	all := mustCover()
	t.Logf("how often cases tried each of %d things, and some more:\n%s", len(all), table(noted))
	for _, what := range all {
		if noted[what] == 0 {
			t.Errorf("no case tried: %s", what)
		}
	}
}

// compare says how rater and slow model differ, empty when they agree. What
// the case tried is added to noted.
func compare(c testCase, noted map[string]int) string {
	slow := newSlow(c)
	must, may := slow.refuses()
	charged := sums{}
	got, err := Rate(c.book, c.period, c.rows, Options{Simulate: c.simulate, Observe: func(c Charge) {
		charged.add(c.Effect, c.Tenant, c.Amount.Rat())
	}})
	var missing *MissingModelError
	var before *BeforeBookError
	priced := !errors.As(err, &missing) && !errors.As(err, &before)
	switch {
	case err != nil && (priced || !may):
		return "unexpected error: " + err.Error()
	case err != nil:
		noted["a month refused"]++
		return ""
	case must:
		return "no error for usage without a price"
	}
	want, platform := slow.invoices()
	mergeNotes(noted, slow.noted)
	if len(want) != len(got.Invoices) {
		return fmt.Sprintf("%d invoices, want %d", len(got.Invoices), len(want))
	}
	for i := range got.Invoices {
		if diff := differ(want[got.Invoices[i].Tenant], &got.Invoices[i]); diff != "" {
			return fmt.Sprintf("tenant %q: %s", got.Invoices[i].Tenant, diff)
		}
	}
	if diff := differPlatform(platform, &got.Platform); diff != "" {
		return "platform: " + diff
	}
	if err := Check(got); err != nil {
		return err.Error()
	}
	if diff := differCharges(charged, got); diff != "" {
		return diff
	}
	return differShared(slow, got.Shared)
}

// equal says how a figure differs; a figure that is not there is zero.
func equal(what string, got decimal.Decimal, want *big.Rat) string {
	if want == nil {
		want = zero()
	}
	if got.Rat().Cmp(want) != 0 {
		return fmt.Sprintf("%s = %s, want %s", what, got, want.FloatString(24))
	}
	return ""
}

func firstOf(differences ...string) string {
	for _, diff := range differences {
		if diff != "" {
			return diff
		}
	}
	return ""
}

func differ(want slowInvoice, got *Invoice) string {
	if want.hours == nil {
		return "an invoice too many"
	}
	effects := got.Effects.Ordered()
	if len(effects) != len(slowEffects) {
		return fmt.Sprintf("%d effects, want %d", len(effects), len(slowEffects))
	}
	for i, effect := range effects {
		if effect.Name != slowEffects[i] {
			return fmt.Sprintf("effect %d is %s, want %s", i, effect.Name, slowEffects[i])
		}
		if diff := equal(effect.Name, effect.Amount, want.effects[effect.Name]); diff != "" {
			return diff
		}
	}
	return firstOf(equal("gpu_hours", got.GPUHours.Decimal, want.hours), equal("total", got.Total.Decimal, want.total), differProjects(want, got))
}

// differProjects compares what is shown per project.
func differProjects(want slowInvoice, got *Invoice) string {
	sums := map[string]decimal.Decimal{}
	for name := range want.projects {
		sums[name] = decimal.Zero
	}
	for _, line := range got.Lines {
		switch line.Effect {
		case "list", "profile", "idle_surcharge":
			name := line.Effect + " " + line.Project
			sums[name] = sums[name].Add(line.Amount.Decimal)
		}
	}
	for name, sum := range sums {
		if diff := equal(name, sum, want.projects[name]); diff != "" {
			return "project's " + diff
		}
	}
	return ""
}

func differPlatform(want slowPlatform, got *Platform) string {
	return firstOf(
		equal("gpu_hours", got.GPUHours.Decimal, want.hours), equal("list", got.List.Decimal, want.list),
		equal("energy_mj", got.EnergyMJ.Decimal, want.energyMJ),
		equal("distribution", got.Distribution.Decimal, want.distribution),
		equal("quantity rounding", got.QuantityRounding.Decimal, nearest(want.rounding, 18)),
	)
}

// differCharges compares what was told as it arose: invoices are all of it, and
// the platform's list value and distribution.
func differCharges(charged sums, got *Result) string {
	charges := 0
	expect := func(effect, tenant string, amount decimal.Decimal) string {
		if charged[[2]string{effect, tenant}] != nil {
			charges++
		}
		return equal(fmt.Sprintf("tenant %q: %s, as charged,", tenant, effect), amount, charged[[2]string{effect, tenant}])
	}
	diff := firstOf(expect("list", "", got.Platform.List.Decimal), expect("distribution", "", got.Platform.Distribution.Decimal))
	for _, invoice := range got.Invoices {
		for _, effect := range invoice.Effects.Ordered() {
			diff = firstOf(diff, expect(effect.Name, invoice.Tenant, effect.Amount))
		}
	}
	if diff == "" && charges != len(charged) {
		return fmt.Sprintf("%d effects were charged, %d are on invoices", len(charged), charges)
	}
	return diff
}

// differShared compares the distribution of each hour. Hours outside of
// everybody's month may be left out.
func differShared(s *slowModel, got []SharedHour) string {
	hours := map[time.Time]SharedHour{}
	for _, hour := range got {
		hours[hour.Hour] = hour
	}
	for at, rows := range s.hourly {
		sum, concerns := zero(), s.in("", at)
		for _, amount := range s.given(at) {
			sum = plus(sum, amount)
		}
		for _, row := range rows {
			concerns = concerns || s.in(row.Tenant, at)
		}
		if _, listed := hours[at]; !listed && !concerns {
			continue
		}
		what := "distribution at " + at.Format(time.RFC3339)
		if diff := firstOf(equal(what, hours[at].Owners, sum), equal(what, hours[at].Platform.Neg(), sum)); diff != "" {
			return diff
		}
	}
	return ""
}
