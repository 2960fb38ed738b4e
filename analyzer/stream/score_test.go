package stream

import (
	"flag"
	"math"
	"slices"
	"testing"
	"time"
)

var figures = flag.Bool("figures", false, "log the figures of docs/reference/detect.md")

// The scores of perfect and of silent detectors follow from the profile.
func TestTheScoreIsThatOfTheStandardProfile(t *testing.T) {
	s := generate("daily", 3)
	n := len(s.times)
	s.begins = []int{n / 3, n * 2 / 3}
	ws := windows(n, s.begins)
	if wide := ws[0].last - ws[0].first + 1; len(ws) != 2 || math.Abs(float64(wide)-float64(n)/20) > 2 {
		t.Fatalf("windows %v of %d points", ws, n)
	}
	with := func(alarms ...int) []float64 {
		scores := make([]float64, n)
		for _, i := range alarms {
			scores[i] = 1
		}
		return scores
	}
	late := ws[1].last
	for name, test := range map[string]struct {
		scores []float64
		want   float64
	}{
		"at once":               {with(ws[0].first, ws[1].first), 100},
		"none":                  {with(), 0},
		"one":                   {with(ws[0].first, ws[0].first+5), 50},
		"late":                  {with(ws[0].first, late), 50 + 25*(1+sigmoid(-1/float64(late-ws[1].first+1))/sigmoid(-1))},
		"false before":          {with(ws[0].first, ws[1].first, ws[0].first-1), 100 - 11.0/4},
		"false long after":      {with(ws[0].first, ws[1].first, n-1), 100 - 11.0/4},
		"false in probation":    {with(ws[0].first, ws[1].first, 100), 100},
		"false just after":      {with(ws[0].first, ws[1].first, late+1), 100 + 11.0/4*sigmoid(1/float64(late-ws[1].first))},
		"two false, none found": {with(ws[0].first-1, ws[0].first-2), -11.0 / 2},
	} {
		if got := judge(&s, test.scores, 0.5).score(); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: score %v, want %v", name, got, test.want)
		}
	}
}

// Seeds from 1001 on chose no setting and no threshold.
func TestScoreOnFreshSeeds(t *testing.T) {
	n := uint64(12)
	if testing.Short() {
		n = 4
	}
	fresh := seeds(1001, n)
	ours := scoreAll(fresh, with(defaults))
	got, quiet := at(ours, AlarmScore, ""), at(ours, quietScore, "")
	t.Logf("%d anomalies: score %.1f, recall %.2f, %.2f false per week; at score %.2f recall %.2f, %.2f false per week",
		got.windows, got.score(), got.recall(), got.falsePerWeek(), quietScore, quiet.recall(), quiet.falsePerWeek())
	if got.score() < 60 || got.recall() < 0.75 || quiet.recall() < 0.55 || quiet.falsePerWeek() > 0.15 {
		t.Error("the detector is worse than documented")
	}
	for name, rule := range map[string]struct {
		score     func(*labelled, int) float64
		threshold float64
	}{
		"sigmas": {sigmas, bestSigmas}, "deviations": {deviations, bestDeviations},
	} {
		r := at(scoreAll(fresh, highestOf(rule.score)), rule.threshold, "")
		t.Logf("%s: score %.1f, recall %.2f, %.2f false per week", name, r.score(), r.recall(), r.falsePerWeek())
		if r.score() > got.score()-25 {
			t.Errorf("%s: score %.1f, the detector's is %.1f", name, r.score(), got.score())
		}
	}
}

// Thresholds that seeds 1 to 40 chose.
const (
	quietScore     = 0.60 // at most 0.1 false alarms per week
	bestSigmas     = 4.5
	bestDeviations = 100
)

// TestFigures logs the figures of the documentation: go test -run Figures -figures -v -timeout 1h.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("the figures of the documentation: only with -figures")
	}
	chosen, fresh := seeds(1, 40), seeds(1001, 40)
	line := func(name string, score func(*labelled) []float64) {
		old, judged := scoreAll(chosen, score), scoreAll(fresh, score)
		best, quiet := choose(old)
		a, b := at(old, best, ""), at(old, quiet, "")
		c, d := at(judged, best, ""), at(judged, quiet, "")
		t.Logf("%-22s chosen: score %.1f at %.3g, recall %.2f at %.3g | fresh: score %.1f, recall %.2f, false %.2f; recall %.2f, false %.2f",
			name, a.score(), best, b.recall(), quiet, c.score(), c.recall(), c.falsePerWeek(), d.recall(), d.falsePerWeek())
	}
	line("sigmas", highestOf(sigmas))
	line("deviations", highestOf(deviations))
	line("detector", with(defaults))
	ours := scoreAll(fresh, with(defaults))
	for _, family := range families {
		a, b := at(ours, AlarmScore, family), at(ours, quietScore, family)
		t.Logf("%-10s %3d anomalies, score %.0f, recall %.2f, false %.2f; at %.2f recall %.2f, false %.2f", family, a.windows,
			a.score(), a.recall(), a.falsePerWeek(), quietScore, b.recall(), b.falsePerWeek())
	}
	old := scoreAll(chosen, with(defaults))
	for _, step := range []time.Duration{5, 10, 30, 60} {
		_, quiet := choose(every(old, step*time.Minute))
		same := every(ours, step*time.Minute)
		a, b := at(same, AlarmScore, ""), at(same, quiet, "")
		t.Logf("every %2d min %3d anomalies in %.0f weeks, recall %.2f, false %.2f; at %.2f recall %.2f, false %.2f", step,
			a.windows, a.weeks, a.recall(), a.falsePerWeek(), quiet, b.recall(), b.falsePerWeek())
	}
	found, planted := map[string]int{}, map[string]int{}
	for i := range ours {
		s := &ours[i]
		for k, begin := range s.begins {
			half := len(s.scores) / 20 / len(s.begins)
			planted[s.kinds[k]]++
			if slices.Max(s.scores[begin-half:min(len(s.scores), begin+half)]) >= AlarmScore {
				found[s.kinds[k]]++
			}
		}
	}
	t.Logf("found %v of %v", found, planted)
	for _, threshold := range []float64{0.4, 0.5, 0.6, 0.7, 0.8} {
		a := at(ours, threshold, "")
		t.Logf("from score %.1f on: score %.1f, recall %.2f, false %.2f", threshold, a.score(), a.recall(), a.falsePerWeek())
	}
	for _, change := range []struct {
		name string
		to   func(set *settings)
	}{
		{"without high and low", func(set *settings) { set.weight[high], set.weight[low] = 0, 0 }},
		{"without jump", func(set *settings) { set.weight[jump] = 0 }},
		{"without pair", func(set *settings) { set.weight[pair] = 0 }},
		{"without course", func(set *settings) { set.weight[nearCourse] = 0 }},
		{"without day", func(set *settings) { set.weight[dayMedian], set.weight[dayNearest] = 0, 0 }},
		{"day 1", func(set *settings) { set.weight[dayMedian], set.weight[dayNearest] = 1, 1 }},
		{"without level", func(set *settings) { set.weight[level] = 0 }},
		{"without rough and calm", func(set *settings) { set.weight[rough], set.weight[calm] = 0, 0 }},
		{"exponent 1", func(set *settings) { set.exponent = 1 }},
		{"exponent 2", func(set *settings) { set.exponent = 2 }},
		{"sample 1024", func(set *settings) { set.sample = 1024 }},
		{"sample 4096", func(set *settings) { set.sample = 4096 }},
		{"recurring 0", func(set *settings) { set.recurring = 0 }},
		{"ordinary 0", func(set *settings) { set.ordinary = 0 }},
		{"quiet 6 h", func(set *settings) { set.quiet = 6 * time.Hour }},
		{"quiet 24 h", func(set *settings) { set.quiet = 24 * time.Hour }},
	} {
		set := defaults
		change.to(&set)
		line(change.name, with(set))
	}
}
