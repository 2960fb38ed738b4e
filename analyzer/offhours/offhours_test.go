package offhours

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/analyzer/episode"
)

// monday is the first of 35 days; 2026-03-02 is a Monday.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const days = 35

// fleet makes a tenant's uses and the coverage of the cluster from GPU-hours by
// hour.
func fleet(gpus func(at time.Time) float64) ([]Use, coverage) {
	var uses []Use
	covered := coverage{}
	for i := range days * 24 {
		at := monday.Add(time.Duration(i) * time.Hour)
		covered["c"] = append(covered["c"], at)
		uses = append(uses, // so that the cluster is known to tell of activity
			Use{Cluster: "c", Tenant: "steady", Start: at, Model: "H100", Slices: 7, ActiveSliceMS: 7 * 3_600_000, HeldSliceMS: 7 * 3_600_000})
		if g := gpus(at); g > 0 || i == 0 {
			uses = append(uses,
				Use{Cluster: "c", Tenant: "ml", Start: at, Model: "H100", Slices: 7, ActiveSliceMS: uint64(g * 7 * 3_600_000), HeldSliceMS: uint64(g * 7 * 3_600_000)})
		}
	}
	return uses, covered
}

func office(at time.Time) bool {
	return at.Weekday() >= time.Monday && at.Weekday() <= time.Friday && at.Hour() >= 8 && at.Hour() < 19
}

// spikeAt is 02:00 to 05:00 on the fourth Sunday.
var spikeAt = monday.AddDate(0, 0, 27).Add(2 * time.Hour)

func inSpike(at time.Time) bool { return !at.Before(spikeAt) && at.Before(spikeAt.Add(3*time.Hour)) }

// coverage are, by cluster, the hours of which the ledger observed enough to conclude
// that a tenant held nothing.
type coverage map[string][]time.Time

// findIn returns the spikes of all tenants, sorted. Uses may come in any order. They should
// include every hour in which a tenant held anything.
func findIn(config Config, rates episode.Rates, uses []Use, covered coverage) ([]episode.Episode, error) {
	byHour, seen := map[time.Time][]Use{}, map[time.Time][]string{}
	for _, u := range uses {
		at := u.Start.UTC()
		byHour[at] = append(byHour[at], u)
	}
	for cluster, hours := range covered {
		for _, at := range hours {
			at = at.UTC()
			if seen[at] = append(seen[at], cluster); byHour[at] == nil {
				byHour[at] = []Use{}
			}
		}
	}
	f := New(config, rates)
	for _, at := range slices.SortedFunc(maps.Keys(byHour), time.Time.Compare) {
		if err := f.Hour(at, byHour[at], seen[at]); err != nil {
			return nil, err
		}
	}
	return f.Episodes(), nil
}

func mustFind(t *testing.T, c Config, uses []Use, covered coverage) []episode.Episode {
	t.Helper()
	got, err := findIn(c, episode.NoRates{}, uses, covered)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func spans(episodes []episode.Episode) []string {
	var out []string
	for _, e := range episodes {
		out = append(out, e.Start.Format("01-02T15")+" "+e.End.Sub(e.Start).String()+" "+e.WastedGPUHours.String())
	}
	return out
}

func TestScenarios(t *testing.T) {
	for _, tc := range []struct {
		name string
		gpus func(at time.Time) float64
		want []string
	}{
		{"a Sunday night on 12 GPUs", func(at time.Time) float64 {
			if inSpike(at) {
				return 12
			}
			if office(at) {
				return 8
			}
			return 0
		}, []string{"03-29T02 3h0m0s 36"}},
		{"only what lies above the usual night counts", func(at time.Time) float64 {
			if inSpike(at) {
				return 12
			}
			return 1
		}, []string{"03-29T02 3h0m0s 33"}},
		{"round the clock", func(at time.Time) float64 {
			return 10 + float64(at.Hour()%5)
		}, nil},
		{"round the clock with a swing by day", func(at time.Time) float64 {
			if at.Hour() >= 18 && at.Hour() < 23 {
				return 16
			}
			return 9
		}, nil},
		{"a nightly job is a habit", func(at time.Time) float64 {
			if at.Hour() == 2 || at.Hour() == 3 {
				return 8
			}
			return 0
		}, nil},
		{"a little more than the habit", func(at time.Time) float64 {
			switch {
			case inSpike(at):
				return 11
			case at.Hour() == 2 || at.Hour() == 3:
				return 8
			}
			return 0
		}, []string{"03-29T02 3h0m0s 9"}},
		{"more than the habit", func(at time.Time) float64 {
			switch {
			case inSpike(at):
				return 24
			case at.Hour() == 2 || at.Hour() == 3:
				return 8
			}
			return 0
		}, []string{"03-29T02 3h0m0s 48"}},
		{"a training run goes on through the weekend", func(at time.Time) float64 {
			from := monday.AddDate(0, 0, 18).Add(14 * time.Hour)
			if !at.Before(from) && at.Before(from.Add(60*time.Hour)) {
				return 16
			}
			return 0
		}, nil},
		{"another one joins it at night", func(at time.Time) float64 {
			from := monday.AddDate(0, 0, 25).Add(14 * time.Hour)
			switch {
			case inSpike(at):
				return 16 + 20
			case !at.Before(from) && at.Before(from.Add(60*time.Hour)):
				return 16
			}
			return 0
		}, []string{"03-29T02 3h0m0s 60"}},
		{"less than the least rise", func(at time.Time) float64 {
			if inSpike(at) {
				return 1.9
			}
			return 0
		}, nil},
		{"a newcomer without peers", func(at time.Time) float64 {
			if at.Equal(monday.AddDate(0, 0, 5).Add(2 * time.Hour)) {
				return 12
			}
			return 0
		}, nil},
		{"work in working hours only", func(at time.Time) float64 {
			if office(at) {
				return 30
			}
			return 0
		}, nil},
		{"a working hour parts two episodes", func(at time.Time) float64 {
			thursday := monday.AddDate(0, 0, 24)
			if !at.Before(thursday.Add(5*time.Hour)) && at.Before(thursday.Add(9*time.Hour)) {
				return 12
			}
			return 0
		}, []string{"03-26T05 3h0m0s 36"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			uses, covered := fleet(tc.gpus)
			if diff := cmp.Diff(tc.want, spans(mustFind(t, DefaultConfig(), uses, covered))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlindHoursAreNoEvidenceOfRest: a tenant that works round the clock was seen in some
// nights only; the others must not make its nights look free.
func TestBlindHoursAreNoEvidenceOfRest(t *testing.T) {
	seen := func(at time.Time) bool { return at.Day()%5 == 0 || inSpike(at) }
	uses, covered := fleet(func(at time.Time) float64 {
		if seen(at) {
			return 10
		}
		return 0
	})
	if got := mustFind(t, DefaultConfig(), uses, covered); len(got) == 0 {
		t.Fatal("with rest in the history nothing is found: the test shows nothing")
	}
	if got := mustFind(t, DefaultConfig(), uses, coverage{"c": slices.DeleteFunc(covered["c"], func(at time.Time) bool { return !seen(at) })}); len(got) != 0 {
		t.Errorf("found %v: want none", spans(got))
	}
}

// TestHeldTimeCountsWithoutActivity: as imported records have it.
func TestHeldTimeCountsWithoutActivity(t *testing.T) {
	uses, covered := fleet(func(at time.Time) float64 {
		if inSpike(at) {
			return 12
		}
		return 0
	})
	for i := range uses {
		uses[i].ActiveSliceMS = 0
	}
	if diff := cmp.Diff([]string{"03-29T02 3h0m0s 36"}, spans(mustFind(t, DefaultConfig(), uses, covered))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTenantsHaveTheirOwnCalendars(t *testing.T) {
	night := func(at time.Time) float64 { // 09:00 to 12:00 in Auckland on one Thursday
		from := time.Date(2026, 3, 25, 20, 0, 0, 0, time.UTC)
		if !at.Before(from) && at.Before(from.Add(3*time.Hour)) {
			return 12
		}
		return 0
	}
	uses, covered := fleet(night)
	if got := mustFind(t, DefaultConfig(), uses, covered); len(got) != 1 {
		t.Fatalf("in UTC: %v, want one", spans(got))
	}
	c := DefaultConfig()
	c.Tenants = map[string]Calendar{"ml": {Zone: "Pacific/Auckland"}}
	if got := mustFind(t, c, uses, covered); len(got) != 0 {
		t.Errorf("in Auckland: %v, want none", spans(got))
	}
}

func TestEvidenceNamesTheFigures(t *testing.T) {
	uses, covered := fleet(func(at time.Time) float64 {
		if inSpike(at) {
			return 12
		}
		return 1
	})
	e := mustFind(t, DefaultConfig(), uses, covered)[0]
	for _, want := range []string{
		"36.0 GPU-hours active in 3 off-hours", "Sun 2026-03-29 02:00 UTC", "3.0 expected", "no rate is known for model H100",
	} {
		if !strings.Contains(e.Evidence, want) {
			t.Errorf("evidence %q: want %q in it", e.Evidence, want)
		}
	}
}

func TestCalendarHours(t *testing.T) {
	for _, tc := range []struct {
		zone, at string
		off      bool
	}{
		{"UTC", "2026-03-02T07:00:00Z", true},
		{"UTC", "2026-03-02T08:00:00Z", false},
		{"UTC", "2026-03-02T18:00:00Z", false},
		{"UTC", "2026-03-02T19:00:00Z", true},
		{"UTC", "2026-03-07T12:00:00Z", true},
		// 13:30 to 14:30 UTC is the evening's half hour in Kolkata: 18:30 to 19:30.
		{"Asia/Kolkata", "2026-03-02T13:00:00Z", false},
		{"Asia/Kolkata", "2026-03-02T14:00:00Z", true},
		// Berlin is at UTC+2 from 2026-03-29: 06:00 UTC turns into 08:00.
		{"Europe/Berlin", "2026-03-27T06:00:00Z", true},
		{"Europe/Berlin", "2026-03-30T06:00:00Z", false},
		// A holiday, a day to make up for one, and a night shift that begins on Friday.
		{"UTC", "2026-12-25T12:00:00Z", true},
		{"UTC", "2026-12-26T12:00:00Z", false},
		{"UTC", "2026-12-26T07:00:00Z", true},
		{"Asia/Tokyo", "2026-03-06T20:00:00Z", false},
		{"Asia/Tokyo", "2026-03-06T21:00:00Z", true},
		{"Asia/Tokyo", "2026-03-06T12:30:00Z", false},
		{"Asia/Tokyo", "2026-03-07T14:00:00Z", true},
	} {
		working := DefaultConfig().Calendar.Working
		if tc.zone == "Asia/Tokyo" {
			working = []Window{{Days: []string{"fri"}, From: "22:00", To: "06:00"}}
		}
		cal, err := newCalendar(Calendar{
			Zone: tc.zone, Working: working, Holidays: []string{"2026-12-25"}, MakeUp: map[string]string{"2026-12-26": "fri"},
		})
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := cal.off(at); got != tc.off {
			t.Errorf("%s in %s: off-hours %v, want %v", tc.at, tc.zone, got, tc.off)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	window := func(w Window) func(*Config) {
		return func(c *Config) { c.Tenants = map[string]Calendar{"ml": {Working: []Window{w}}} }
	}
	for want, change := range map[string]func(*Config){
		`calendar: zone "Mars/Base"`:              func(c *Config) { c.Calendar.Zone = "Mars/Base" },
		`calendar: zone ""`:                       func(c *Config) { c.Calendar.Zone = "" },
		`tenants: ml: working[0]: days: "montag"`: window(Window{Days: []string{"montag"}, From: "08:00", To: "19:00"}),
		`tenants: ml: working[0]: days is empty`:  window(Window{From: "08:00", To: "19:00"}),
		`tenants: ml: working[0]: from "8h"`:      window(Window{Days: []string{"mon"}, From: "8h", To: "19:00"}),
		`tenants: ml: working[0]: to "25:00"`:     window(Window{Days: []string{"mon"}, From: "08:00", To: "25:00"}),
		`holidays: "Christmas"`:                   func(c *Config) { c.Calendar.Holidays = []string{"Christmas"} },
		`make_up "2026-02-14": "x"`:               func(c *Config) { c.Calendar.MakeUp = map[string]string{"2026-02-14": "x"} },
		"is in holidays and in make_up": func(c *Config) {
			c.Calendar.Holidays, c.Calendar.MakeUp = []string{"2026-02-14"}, map[string]string{"2026-02-14": "mon"}
		},
		"p 0:":              func(c *Config) { c.P = 0 },
		"hysteresis_p 0":    func(c *Config) { c.HysteresisP = 0 },
		"min_rise -1":       func(c *Config) { c.MinRise = -1 },
		"min_explained 1":   func(c *Config) { c.MinExplained = 1 },
		"min_gpu_hours NaN": func(c *Config) { c.MinGPUHours = math.NaN() },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q", err, want)
		}
	}
}

// TestClockChangesRaiseNoAlarm: a tenant with office hours and a nightly job in local time
// is usual through both changes of the clock, in six zones.
func TestClockChangesRaiseNoAlarm(t *testing.T) {
	for _, zone := range []string{
		"Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago",
	} {
		place, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, begin := range []time.Time{time.Date(2026, 2, 9, 0, 0, 0, 0, time.UTC), time.Date(2026, 8, 10, 0, 0, 0, 0, time.UTC)} {
			var uses []Use
			covered := coverage{}
			for i := range 91 * 24 {
				at := begin.Add(time.Duration(i) * time.Hour)
				covered["c"] = append(covered["c"], at)
				var hours float64
				for m := range 60 {
					local := at.Add(time.Duration(m) * time.Minute).In(place)
					switch hour := local.Hour(); {
					case local.Weekday() != time.Saturday && local.Weekday() != time.Sunday && hour >= 9 && hour < 18:
						hours += 8. / 60
					case hour >= 1 && hour < 4: // the skipped hour shortens it, the doubled one lengthens it
						hours += 12. / 60
					}
				}
				n := uint64(hours * 7 * 3_600_000)
				uses = append(uses, Use{Cluster: "c", Tenant: "ml", Start: at, Model: "H100", Slices: 7, ActiveSliceMS: n, HeldSliceMS: n})
			}
			config := DefaultConfig()
			config.Calendar.Zone = zone
			if got := mustFind(t, config, uses, covered); len(got) > 0 {
				t.Errorf("%s from %s: %v", zone, begin.Format(time.DateOnly), spans(got))
			}
		}
	}
}

// TestHistoryFromRecordsIsNoHistoryOfActivity: three weeks are known from records, which tell of no activity; then the
// cluster is measured. What is usual must be learned anew, and nothing is a spike until then. A tenant of a measured
// cluster that never worked before is one that works for the first time.
func TestHistoryFromRecordsIsNoHistoryOfActivity(t *testing.T) {
	measured := monday.AddDate(0, 0, 21)
	for name, test := range map[string]struct {
		from time.Time // when other tenants' activity is known
		want []string
	}{
		"records before": {measured, nil},
		"all measured":   {monday, []string{"03-23T00 8h0m0s 96"}},
	} {
		uses, covered := fleet(func(time.Time) float64 { return 0 })
		for i := range uses {
			u := &uses[i]
			if u.ActiveSliceMS = 0; u.Tenant == "steady" && !u.Start.Before(test.from) {
				u.ActiveSliceMS = u.HeldSliceMS
			}
		}
		for h := range 24 { // the tenant works around the clock on the first day
			uses = append(uses, Use{
				Cluster: "c", Tenant: "ml", Workload: "w", Start: measured.Add(time.Duration(h) * time.Hour), Model: "H100", Slices: 7,
				ActiveSliceMS: 12 * 7 * 3_600_000, HeldSliceMS: 12 * 7 * 3_600_000,
			})
		}
		if diff := cmp.Diff(test.want, spans(mustFind(t, DefaultConfig(), uses, covered))); diff != "" {
			t.Errorf("%s: spikes (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatIsFoundDoesNotDependOnWhenOneAsks: asking after every hour changes nothing.
func TestWhatIsFoundDoesNotDependOnWhenOneAsks(t *testing.T) {
	uses, covered := fleet(func(at time.Time) float64 {
		if inSpike(at) {
			return 12
		}
		return 0
	})
	by := map[time.Time][]Use{}
	for _, u := range uses {
		by[u.Start] = append(by[u.Start], u)
	}
	asked := New(DefaultConfig(), episode.NoRates{})
	for _, at := range covered["c"] {
		if err := asked.Hour(at, by[at], []string{"c"}); err != nil {
			t.Fatal(err)
		}
		asked.Episodes()
	}
	want := mustFind(t, DefaultConfig(), uses, covered)
	if diff := cmp.Diff(spans(want), spans(asked.Episodes())); diff != "" || len(want) != 1 {
		t.Errorf("spikes (-asked once +asked every hour):\n%s", diff)
	}
}

// TestEqualDataGiveEqualFindings: six workloads run on all the time, on sevenths of GPUs, whose sums depend on their
// order. They are no excess, and the same hours give the same findings to the last bit.
func TestEqualDataGiveEqualFindings(t *testing.T) {
	uses, covered := fleet(func(at time.Time) float64 {
		if inSpike(at) {
			return 3
		}
		return 0
	})
	for _, at := range covered["c"] {
		for n := range uint64(6) {
			uses = append(uses, Use{
				Cluster: "c", Tenant: "ml", Workload: fmt.Sprint("serve-", n), Start: at, Model: "H100", Slices: 7,
				ActiveSliceMS: (n + 1) * 3_600_000, HeldSliceMS: (n + 1) * 3_600_000,
			})
		}
	}
	want := mustFind(t, DefaultConfig(), uses, covered)
	if diff := cmp.Diff([]string{"03-29T02 3h0m0s 9"}, spans(want)); diff != "" {
		t.Errorf("spikes (-want +got):\n%s", diff)
	}
	for range 20 {
		if got := mustFind(t, DefaultConfig(), uses, covered); len(got) != len(want) || got[0].Score != want[0].Score ||
			got[0].Evidence != want[0].Evidence {
			t.Fatalf("found %v, before %v", got, want)
		}
	}
}
