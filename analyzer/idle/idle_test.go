package idle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/analyzer/episode"
)

var (
	monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	whole  = Series{Cluster: "c", GPU: "GPU-1", Leaf: "gpu", Tenant: "ml", Project: "p", Workload: "train"}
)

// hours makes one hour of seven slices per letter: i idle, a active, u unproven,
// m nine tenths idle, x half idle and half unproven, q idle for a quarter of
// it; "." is an hour that the ledger doesn't have.
func hours(s Series, pattern string) []Hour {
	const full = 7 * hourMS
	var out []Hour
	for i, c := range pattern {
		h := Hour{
			Series: s, Start: monday.Add(time.Duration(i) * time.Hour), Node: "n1", User: "ann", Model: "H100",
			Slices: 7, LeafSlices: 7,
		}
		switch c {
		case 'i':
			h.IdleSliceMS = full
		case 'a':
			h.ActiveSliceMS = full
		case 'u':
			h.UnprovenSliceMS = full
		case 'm':
			h.IdleSliceMS, h.ActiveSliceMS = full/10*9, full/10
		case 'x':
			h.IdleSliceMS, h.UnprovenSliceMS = full/2, full/2
		case 'q':
			h.IdleSliceMS = full / 4
		case '.':
			continue
		}
		out = append(out, h)
	}
	return out
}

func find(t *testing.T, c Config, hours ...[]Hour) []episode.Episode {
	t.Helper()
	f := New(c, episode.NoRates{})
	for _, list := range hours {
		for _, h := range list {
			if err := f.Add(h); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f.Episodes()
}

// shape writes an episode as "from-to waste", hours from the first.
func shape(episodes []episode.Episode) []string {
	var out []string
	for _, e := range episodes {
		from, to := e.Start.Sub(monday), e.End.Sub(monday)
		out = append(out, strings.TrimSuffix(from.String(), "0m0s")+"-"+strings.TrimSuffix(to.String(), "0m0s")+" "+
			e.WastedGPUHours.String())
	}
	return out
}

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		name, pattern string
		want          []string
	}{
		{"two hours are enough", "aiia", []string{"1h-3h 2"}},
		{"one hour is not", "aia", nil},
		{"work ends it", "iiaii", []string{"0s-2h 2", "3h-5h 2"}},
		{"nine tenths are idle", "mmm", []string{"0s-3h 2.7"}},
		{"an unproven hour bridges without waste", "iuii", []string{"0s-4h 3"}},
		{"the idle half of a bridge was proven", "ixi", []string{"0s-3h 2.5"}},
		{"two unproven hours end it", "iiuuii", []string{"0s-2h 2", "4h-6h 2"}},
		{"unproven hours at the edges are cut off", "uiiu", []string{"1h-3h 2"}},
		{"unproven is never idle", "uuuuuuuu", nil},
		{"one idle hour on each side of a bridge", "iui", []string{"0s-3h 2"}},
		{"an hour that nobody saw ends it", "ii.ii", []string{"0s-2h 2", "3h-5h 2"}},
		{"a single idle hour and a bridge", "iu", nil},
		{"a quarter share all along", "qqqq", []string{"0s-4h 1"}},
		{"two partial hours may be half an hour", "qq", nil},
		{"edges held in part", "qiiq", []string{"0s-4h 2.5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, shape(find(t, DefaultConfig(), hours(whole, tc.pattern)))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.pattern, diff)
			}
		})
	}
}

func TestOneEpisodePerLeafAndOwner(t *testing.T) {
	second, other := whole, whole
	second.GPU, other.Workload = "GPU-2", "zz"
	got := find(t, DefaultConfig(), hours(whole, "iii"), hours(other, "iii"), hours(second, "iii"))
	if len(got) != 3 {
		t.Fatalf("%d episodes, want 3: %v", len(got), got)
	}
	ids := map[string]bool{}
	for _, e := range got {
		ids[e.ID()] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d different ids, want 3", len(ids))
	}
}

func TestMIGLeafIsCountedInItsShareOfTheGPU(t *testing.T) {
	list := hours(whole, "iii")
	for i := range list {
		list[i].LeafSlices, list[i].IdleSliceMS = 3, 3*hourMS
	}
	if diff := cmp.Diff([]string{"0s-3h 1.285714286"}, shape(find(t, DefaultConfig(), list))); diff != "" {
		t.Errorf("three slices of seven for three hours (-want +got):\n%s", diff)
	}
}

func TestEvidenceNamesTheFigures(t *testing.T) {
	e := find(t, DefaultConfig(), hours(whole, "iuii"))[0]
	for _, want := range []string{
		"idle 3.0 h of 4 hours", "75.0 % of the held time", "leaf gpu of H100", "user ann",
		"1 hour without evidence", "no rate is known for model H100",
	} {
		if !strings.Contains(e.Evidence, want) {
			t.Errorf("evidence %q: want %q in it", e.Evidence, want)
		}
	}
}

func TestAddRefusesAnotherOrder(t *testing.T) {
	list := hours(whole, "ii")
	f := New(DefaultConfig(), episode.NoRates{})
	if err := f.Add(list[1]); err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		if err := f.Add(h); err == nil || !strings.Contains(err.Error(), "c/GPU-1/gpu/ml/p/train") {
			t.Errorf("error %v for %s: want one that names the series", err, h.Start)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	for want, change := range map[string]func(*Config){
		"min_idle_share 1.5":  func(c *Config) { c.MinIdleShare = 1.5 },
		"min_idle_share 0":    func(c *Config) { c.MinIdleShare = 0 },
		"min_duration 0s":     func(c *Config) { c.MinDuration = 0 },
		"max_bridge_hours -1": func(c *Config) { c.MaxBridgeHours = -1 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q", err, want)
		}
	}
}
