package analyzer

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/analyzer/episode"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// spend is a finding that wastes an amount in each hour from a start.
func spend(tenant, workload string, start time.Time, hours int, perHour int64) episode.Episode {
	e := episode.Episode{
		Kind: episode.IdleAllocation, Grade: episode.Proven, Tenant: tenant, Workload: workload, Start: start,
		End: start.Add(time.Duration(hours) * time.Hour),
	}
	var w episode.Waste
	for h := range hours {
		w.Add(flatRate{}, &episode.Use{Hour: start.Add(time.Duration(h) * time.Hour)}, big.NewRat(perHour, 1))
	}
	e.Wasted(&w)
	return e
}

// flatRate prices a GPU-hour at one.
type flatRate struct{}

func (flatRate) GPUHour(*episode.Use) (*big.Rat, string, bool) { return big.NewRat(1, 1), "USD", true }

// alertsOf names the findings that were let through, with hour and severity.
func alertsOf(a Alerts, episodes ...episode.Episode) []string {
	a.rate(episodes)
	a.let(episodes, nil)
	out := []string{}
	for _, e := range episodes {
		if !e.Alerted.IsZero() {
			out = append(out, fmt.Sprintf("%s at %g as %s", e.Workload, e.Alerted.Sub(monday).Hours(), e.Reached.At(e.Alerted)))
		}
	}
	return out
}

func TestAlertsComeWhenACostPerDayIsReached(t *testing.T) {
	for _, test := range []struct {
		name string
		of   []episode.Episode
		want []string
	}{
		{"cheap", []episode.Episode{spend("a", "w", monday, 4, 1)}, []string{}},
		{"cheap, then usual for a day", []episode.Episode{spend("a", "w", monday, 240, 2)}, []string{"w at 3 as low"}},
		{"as soon as 50 are spent", []episode.Episode{spend("a", "w", monday, 20, 3)}, []string{"w at 2 as low"}},
		{"a tenant's second one waits", []episode.Episode{
			spend("a", "first", monday, 48, 2), spend("a", "second", monday.Add(time.Hour), 48, 2),
		}, []string{"first at 3 as low"}},
		{"and comes when a week has passed", []episode.Episode{
			spend("a", "first", monday, 48, 2), spend("a", "second", monday.Add(time.Hour), 200, 2),
		}, []string{"first at 3 as low", "second at 171 as low"}},
		{"one that is more severe comes at once", []episode.Episode{
			spend("a", "first", monday, 48, 60), spend("a", "second", monday.Add(time.Hour), 24, 100),
		}, []string{"first at 1 as medium", "second at 6 as high"}},
		{"one that becomes more severe comes then", []episode.Episode{
			spend("a", "first", monday, 48, 10), spend("a", "second", monday.Add(time.Hour), 48, 10),
		}, []string{"first at 1 as low", "second at 6 as medium"}},
		{"another tenant's comes", []episode.Episode{
			spend("a", "first", monday, 48, 10), spend("b", "second", monday.Add(time.Hour), 48, 10),
		}, []string{"first at 1 as low", "second at 2 as low"}},
		{"the dearest of one time comes first", []episode.Episode{
			spend("a", "cheap", monday, 48, 60), spend("a", "dear", monday, 48, 600),
		}, []string{"dear at 1 as high"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, alertsOf(DefaultAlerts(), test.of...)); diff != "" {
				t.Errorf("alerts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSuspectedIsAStepLowerAndNewAStepHigher(t *testing.T) {
	for _, test := range []struct {
		grade episode.Grade
		isNew bool
		want  episode.Severity
	}{
		{episode.Proven, false, episode.High},
		{episode.Suspected, false, episode.Medium},
		{episode.Suspected, true, episode.High},
		{episode.Proven, true, episode.Critical},
	} {
		e := []episode.Episode{spend("a", "w", monday, 24, 100)}
		e[0].Grade, e[0].New = test.grade, test.isNew
		DefaultAlerts().rate(e)
		if e[0].Severity != test.want {
			t.Errorf("grade %s, new %v: severity %s, want %s", test.grade, test.isNew, e[0].Severity, test.want)
		}
	}
}

// TestFindingsAboutDevicesAreBoundedByKind: they take places of the site, and one of a kind a week, unless it is more
// severe; what belongs to an outage is no alert.
func TestFindingsAboutDevicesAreBoundedByKind(t *testing.T) {
	device := func(gpu string, start int, least episode.Severity) episode.Episode {
		from := monday.Add(time.Duration(start) * time.Hour)
		return episode.Episode{
			Kind: episode.GPUErrors, Grade: episode.None, Workload: gpu, Leaves: []episode.Leaf{{GPU: gpu}}, Start: from,
			End: from.Add(100 * time.Hour), Known: from.Add(time.Hour), Least: least, Waste: &episode.Waste{},
		}
	}
	outage := spend("", "outage", monday.Add(20*time.Hour), 20, 10)
	outage.Kind, outage.Grade = episode.Unobserved, episode.None
	node := outage
	node.Workload, node.Node, node.Parent = "node", "n1", outage.ID()
	got := alertsOf(DefaultAlerts(), device("info", 0, episode.Info), device("low", 1, episode.Low),
		device("again", 2, episode.Low), device("medium", 3, episode.Medium), device("as severe", 4, episode.Medium),
		spend("t", "idle", monday.Add(9*time.Hour), 48, 10), outage, node)
	want := []string{"low at 2 as low", "medium at 4 as medium", "idle at 10 as low", "outage at 21 as low"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// TestTheBudgetIsNeverExceeded: of random findings at most the places of a week, and one more for each severity above
// the lowest; the same ones in whatever order the findings come; what is let through does not depend on findings that
// begin later.
func TestTheBudgetIsNeverExceeded(t *testing.T) {
	rng, rounds := rand.New(rand.NewPCG(5, 0)), 200
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		var all []episode.Episode
		for i := range 60 {
			all = append(all, spend(string(rune('a'+rng.IntN(4))), fmt.Sprint(i), monday.Add(time.Duration(rng.IntN(24*28))*time.Hour),
				1+rng.IntN(100), rng.Int64N(300)))
		}
		a := Alerts{PerWeek: 1 + rng.IntN(5), PerTenantWeek: 1 + rng.IntN(2), Severity: episode.DefaultLimits()}
		a.rate(all)
		a.let(all, nil)
		times := map[string][]time.Time{}
		for _, e := range all {
			if !e.Alerted.IsZero() {
				times[""], times[e.Tenant] = append(times[""], e.Alerted), append(times[e.Tenant], e.Alerted)
			}
		}
		for tenant, at := range times {
			most := a.PerTenantWeek
			if tenant == "" {
				most = a.PerWeek
			}
			for _, from := range at {
				n := 0
				for _, t := range at {
					if !t.Before(from) && t.Before(from.Add(alertWeek)) {
						n++
					}
				}
				if n > most+3 {
					t.Fatalf("%d alerts of %q in a week, want %d and one more for medium, high and critical each", n, tenant, most)
				}
			}
		}
		cut := monday.Add(14 * 24 * time.Hour)
		mixed := slices.DeleteFunc(slices.Clone(all), func(e episode.Episode) bool { return !e.Start.Before(cut) })
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		want := map[string]time.Time{}
		for _, e := range all {
			if e.Start.Before(cut) && e.Alerted.Before(cut) {
				want[e.Workload] = e.Alerted
			}
		}
		for i := range mixed {
			mixed[i].Alerted = time.Time{}
		}
		a.let(mixed, nil)
		for _, e := range mixed {
			if at, early := want[e.Workload]; early && e.Alerted.Before(cut) && !at.Equal(e.Alerted) {
				t.Fatalf("finding %s: alert at %s without the later ones, want %s", e.Workload, e.Alerted, at)
			}
		}
	}
}

// TestAnAlertIsNeverTakenBack: an earlier run let one through; now a dearer one of the same time is known, and the
// window has moved on.
func TestAnAlertIsNeverTakenBack(t *testing.T) {
	a := DefaultAlerts()
	given := spend("a", "given", monday, 48, 2)
	before := []episode.Episode{given}
	a.rate(before)
	a.let(before, nil)
	earlier := []alerted{{id: given.ID(), at: before[0].Alerted, about: "a", severity: episode.Low}}
	now := []episode.Episode{spend("a", "late", monday.Add(-time.Hour), 48, 2), given}
	a.rate(now)
	a.let(now, earlier)
	if !now[1].Alerted.Equal(before[0].Alerted) {
		t.Errorf("alerted at %s, then at %s", before[0].Alerted, now[1].Alerted)
	}
	// At its own time there was no place but for the one that came before; from then on the given one has it.
	gone := []episode.Episode{spend("a", "next", monday.Add(5*time.Hour), 48, 2)}
	a.rate(gone)
	a.let(gone, earlier)
	if !gone[0].Alerted.IsZero() {
		t.Errorf("the place of an alert whose finding is out of sight was given away at %s", gone[0].Alerted)
	}
}

// TestAPatternHidesNoDearerAllocation: what the pattern stands for is no alert of its own, unless it is more severe.
func TestAPatternHidesNoDearerAllocation(t *testing.T) {
	p := spend("a", "nb", monday, 24, 1)
	p.Kind, p.Known = episode.IdlePattern, monday.Add(2*time.Hour)
	usual, dear := spend("a", "usual", monday.Add(30*time.Hour), 10, 1), spend("a", "dear", monday.Add(48*time.Hour), 10, 160)
	usual.Parent, dear.Parent = p.ID(), p.ID()
	want := []string{"nb at 5 as low", "dear at 49 as medium"}
	if diff := cmp.Diff(want, alertsOf(DefaultAlerts(), p, usual, dear)); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// TestAMutedFindingTakesNoPlace: the next one has it.
func TestAMutedFindingTakesNoPlace(t *testing.T) {
	found := []episode.Episode{spend("a", "muted", monday, 48, 2), spend("a", "next", monday.Add(time.Hour), 48, 2)}
	a := DefaultAlerts()
	a.rate(found)
	found[0].Silenced = true
	a.let(found, nil)
	if !found[0].Alerted.IsZero() || found[1].Alerted.IsZero() {
		t.Errorf("muted: alerted at %s; the next one: at %s", found[0].Alerted, found[1].Alerted)
	}
}
