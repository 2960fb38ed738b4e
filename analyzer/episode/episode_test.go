package episode

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 3, 7, 2, 0, 0, 0, time.UTC)

type fixedRates map[string]string // model to "rate currency"

func (r fixedRates) GPUHour(u *Use) (*big.Rat, string, bool) {
	text, currency, ok := strings.Cut(r[u.Model], " ")
	if !ok {
		return nil, "", false
	}
	rate, ok := new(big.Rat).SetString(text)
	return rate, currency, ok
}

func TestIDIsStableAndTellsEpisodesApart(t *testing.T) {
	e := Episode{
		Kind: IdleAllocation, Cluster: "c", Tenant: "ml", Project: "p", Workload: "job-7", Leaves: []Leaf{{"GPU-1", "gi3"}},
		Start: start,
	}
	longer := e
	longer.End, longer.Evidence, longer.Node, longer.User = start.Add(9*time.Hour), "more", "n2", "ann"
	if e.ID() != longer.ID() {
		t.Errorf("id changed with the end: %s, %s", e.ID(), longer.ID())
	}
	if len(e.ID()) != 32 {
		t.Errorf("id %q: want 32 hex digits", e.ID())
	}
	seen := map[string]int{e.ID(): -1}
	for i, change := range []func(*Episode){
		func(e *Episode) { e.Kind = OffHoursSpike },
		func(e *Episode) { e.Cluster = "d" },
		func(e *Episode) { e.Tenant = "nlp" },
		func(e *Episode) { e.Project = "" },
		func(e *Episode) { e.Workload = "job-8" },
		func(e *Episode) { e.Grade = Suspected },
		func(e *Episode) { e.Tenant, e.Project = "mlp", "" },
		func(e *Episode) { e.Kind, e.User = OffHoursSpike, "ann" },
		func(e *Episode) { e.Start = start.Add(time.Hour) },
	} {
		other := e
		change(&other)
		if before, dup := seen[other.ID()]; dup {
			t.Errorf("change %d has the id of change %d", i, before)
		}
		seen[other.ID()] = i
	}
}

func TestWasteIsExactAndRoundedOnce(t *testing.T) {
	var w Waste
	rates := fixedRates{"H100": "3.50 USD"}
	// Seven times 1/7 of a slice-hour on seven slices: 1/7 GPU-hour exactly.
	for range 7 {
		w.Add(rates, &Use{Model: "H100", Hour: start}, GPUHours(3_600_000/7*7/7, 7))
	}
	exact := new(big.Rat).Mul(GPUHours(3_600_000/7*7/7, 7), big.NewRat(7, 1))
	if diff := cmp.Diff(exact.FloatString(9), w.GPUHours().String()); diff != "" {
		t.Errorf("GPU-hours (-want +got):\n%s", diff)
	}
	cost, currency := w.Cost()
	if diff := cmp.Diff(exact.Mul(exact, big.NewRat(7, 2)).FloatString(9)+" USD", cost.String()+" "+currency); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
	if w.Note() != "" {
		t.Errorf("note %q: want none", w.Note())
	}
}

func TestUnknownRateLeavesCostAtZeroAndSaysSo(t *testing.T) {
	var w Waste
	w.Add(NoRates{}, &Use{Model: "B300", Hour: start}, big.NewRat(2, 1))
	cost, currency := w.Cost()
	if !cost.IsZero() || currency != "" {
		t.Errorf("cost %s %q: want 0 and no currency", cost, currency)
	}
	if !strings.Contains(w.Note(), "no rate is known for model B300") {
		t.Errorf("note %q: want the model", w.Note())
	}
}

func TestTwoCurrenciesAreNotAdded(t *testing.T) {
	var w Waste
	rates := fixedRates{"H100": "3 USD", "A100": "2 EUR"}
	w.Add(rates, &Use{Model: "H100", Hour: start}, big.NewRat(2, 1))
	w.Add(rates, &Use{Model: "A100", Hour: start}, big.NewRat(2, 1))
	cost, currency := w.Cost()
	if diff := cmp.Diff("6 USD 4", cost.String()+" "+currency+" "+w.GPUHours().String()); diff != "" {
		t.Errorf("cost, currency and hours (-want +got):\n%s", diff)
	}
	if !strings.Contains(w.Note(), "A100") {
		t.Errorf("note %q: want A100", w.Note())
	}
}

func TestGPUHoursOfNoSlicesIsOneSlice(t *testing.T) {
	if got := GPUHours(1_800_000, 0).FloatString(3); got != "0.500" {
		t.Errorf("got %s, want 0.500", got)
	}
}

func TestSortAndOverlaps(t *testing.T) {
	early, late := Episode{Start: start, End: start.Add(time.Hour), Tenant: "z"}, Episode{
		Start:  start.Add(time.Hour),
		Tenant: "a",
	}
	got := []Episode{late, early}
	Sort(got)
	if diff := cmp.Diff([]string{"z", "a"}, []string{got[0].Tenant, got[1].Tenant}); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if early.Overlaps(start.Add(time.Hour), start.Add(2*time.Hour)) {
		t.Error("an episode overlaps the hour after its end")
	}
	if !early.Overlaps(start.Add(-time.Hour), start.Add(time.Minute)) {
		t.Error("an episode does not overlap its own start")
	}
}
