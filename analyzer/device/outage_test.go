package device

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

func hour(h int) time.Time { return monday.Add(time.Duration(h) * time.Hour) }

// flatRate prices a GPU-hour at two.
type flatRate struct{}

func (flatRate) GPUHour(*episode.Use) (*big.Rat, string, bool) { return big.NewRat(2, 1), "USD", true }

// silent is a node of eight GPUs of a cluster of ten nodes, unobserved from one hour to another.
func silent(node string, from, to int) Silence {
	return Silence{
		Cluster: "c", Node: node, From: hour(from), To: hour(to), Model: "H100", Nodes: 10,
		LostMilliMS: uint64(to-from) * 8 * 3_600_000 * 1000,
	}
}

func nodes(n, from, to int) (all []Silence) {
	for i := range n {
		all = append(all, silent(fmt.Sprintf("n%02d", i), from, to))
	}
	return all
}

// shown are the findings that are in no other, and how many are in each.
func shown(found []episode.Episode) []string {
	within := map[string]int{}
	for _, e := range found {
		within[e.Parent]++
	}
	out := []string{}
	for _, e := range found {
		if e.Parent == "" {
			out = append(out, fmt.Sprintf("%s%s %s %g-%g %g h of %d", e.Cluster, e.Node, e.Cause, e.Start.Sub(monday).Hours(),
				e.End.Sub(monday).Hours(), e.Observed, within[e.ID()]))
		}
	}
	return out
}

func TestNodesThatFallSilentTogetherAreOneFinding(t *testing.T) {
	other := silent("n00", 10, 14)
	other.Cluster = "d"
	owners := silent("n09", 10, 14)
	owners.Owners = true
	for _, test := range []struct {
		name string
		of   []Silence
		want []string
	}{
		{"one node", nodes(1, 10, 14), []string{"cn00 silent 10-14 32 h of 0"}},
		{"a rack", nodes(3, 10, 14), []string{"c silent 10-14 96 h of 3"}},
		{
			"one of them by an hour later",
			append(nodes(2, 10, 14), silent("n09", 11, 14)),
			[]string{"c silent 10-14 88 h of 3"},
		},
		{
			"one long before",
			append(nodes(3, 10, 14), silent("n09", 2, 20)),
			[]string{"cn09 silent 2-20 144 h of 0", "c silent 10-14 96 h of 3"},
		},
		{
			"one later, of few",
			append(nodes(3, 10, 14), silent("n09", 12, 14)),
			[]string{"c silent 10-14 96 h of 3", "cn09 silent 12-14 16 h of 0"},
		},
		{"one later, of half", append(nodes(5, 10, 14), silent("n09", 12, 16)), []string{"c silent 10-16 192 h of 6"}},
		{
			"one again, of half",
			append(nodes(5, 10, 13), silent("n00", 14, 16)),
			[]string{"c silent 10-13 120 h of 5", "cn00 silent 14-16 16 h of 0"},
		},
		{
			"another cluster",
			append(nodes(2, 10, 14), other),
			[]string{"c silent 10-14 64 h of 2", "dn00 silent 10-14 32 h of 0"},
		},
		{
			"another cause",
			append(nodes(2, 10, 14), owners),
			[]string{"cn09 owners 10-14 32 h of 0", "c silent 10-14 64 h of 2"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for range 5 { // in any order
				rng.Shuffle(len(test.of), func(i, j int) { test.of[i], test.of[j] = test.of[j], test.of[i] })
				if diff := cmp.Diff(test.want, shown(Outages(test.of, Newest{}, flatRate{}))); diff != "" {
					t.Fatalf("findings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestAnOutageIsRatedByWhatIsLost, of which nothing is wasted time or a tenant's cost; it keeps its id while it grows,
// and has an id of its own.
func TestAnOutageIsRatedByWhatIsLost(t *testing.T) {
	ids := map[string]bool{}
	for _, to := range []int{14, 40} {
		found := Outages(nodes(4, 10, to), Newest{"c": hour(to - 1)}, flatRate{})
		i := slices.IndexFunc(found, func(e episode.Episode) bool { return e.Parent == "" })
		e := found[i]
		e.Rate(episode.DefaultLimits(), 0, e.Known)
		if want := map[int]episode.Severity{14: episode.Medium, 40: episode.High}[to]; e.Severity != want {
			t.Errorf("until hour %d: severity %s, want %s", to, e.Severity, want)
		}
		if !e.Open || e.Grade != episode.None || e.Tenant+e.Currency != "" || !e.WastedGPUHours.IsZero() || !e.WastedCost.IsZero() {
			t.Errorf("%+v: want open, grade none, no tenant, no waste, no cost", e)
		}
		for _, e := range found {
			ids[e.ID()] = true
		}
	}
	if len(ids) != 5 {
		t.Errorf("%d ids, want those of four nodes and one outage", len(ids))
	}
	if e := Outages(nodes(1, 10, 14), Newest{"c": hour(15)}, flatRate{})[0]; e.Open {
		t.Error("a node that was seen afterwards is silent still")
	}
}
