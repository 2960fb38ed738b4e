package pattern

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/analyzer/episode"
)

var first = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

type oneEuro struct{}

func (oneEuro) GPUHour(*episode.Use) (*big.Rat, string, bool) { return big.NewRat(1, 1), "EUR", true }

func utc(string) *time.Location { return time.UTC }

// night is an idle allocation of a GPU that begins at an hour of a day of March and lasts some hours.
func night(workload string, day, hour, hours int) episode.Episode {
	e := episode.Episode{
		Kind: episode.IdleAllocation, Grade: episode.Proven, Cluster: "c", Tenant: "ml", Workload: workload, User: "ann",
		Start: first.AddDate(0, 0, day-2).Add(time.Duration(hour) * time.Hour),
	}
	e.End = e.Start.Add(time.Duration(hours) * time.Hour)
	var w episode.Waste
	for h := range hours {
		w.Add(oneEuro{}, &episode.Use{Hour: e.Start.Add(time.Duration(h) * time.Hour)}, big.NewRat(1, 1))
	}
	e.Wasted(&w)
	return e
}

func TestStem(t *testing.T) {
	for workload, want := range map[string]string{
		"notebook-1af42513":             "notebook",
		"jupyter-alice":                 "jupyter-alice",
		"bert-train-7f9c5d6b8-xkq2p":    "bert-train",
		"web-0":                         "web",
		"etl-bcdfg":                     "etl",
		"train-llama":                   "train-llama",
		"team-a/notebook-x7k2":          "team-a-notebook",
		"4711":                          "",
		"":                              "",
		"4711_12":                       "",
		"nightly.eval.20261101T0200":    "nightly-eval",
		"jupyter-bob-5d4f7c9b6d-rtvwxz": "jupyter-bob",
		"llama3-train":                  "llama3-train",
		"gpt2-eval-7d9c4-x2k4p":         "gpt2-eval",
		"qwen25-finetune-7b":            "qwen25-finetune",
	} {
		if got := Stem(workload); got != want {
			t.Errorf("stem of %q: %q, want %q", workload, got, want)
		}
	}
}

func TestWhatRecursIsOnePatternAMonth(t *testing.T) {
	for _, test := range []struct {
		name string
		of   []episode.Episode
		want []string // workload, month, when it was known, GPU-hours
	}{
		{"two nights are none", []episode.Episode{night("nb-a1", 2, 20, 10), night("nb-b2", 3, 20, 10)}, nil},
		{"three on one day are none", []episode.Episode{
			night("nb-a1", 2, 1, 1), night("nb-b2", 2, 4, 1), night("nb-c3", 2, 8, 1),
		}, nil},
		{"three nights", []episode.Episode{
			night("nb-a1", 2, 20, 10), night("nb-b2", 3, 20, 10), night("nb-c3", 4, 20, 10),
		}, []string{"nb 2026-03 from 04T20: 30"}},
		{"too far apart", []episode.Episode{
			night("nb-a1", 2, 20, 10), night("nb-b2", 10, 20, 10), night("nb-c3", 20, 20, 10),
		}, nil},
		{"of other workloads", []episode.Episode{
			night("nb-a1", 2, 20, 10), night("web-1", 3, 20, 10), night("job-1", 4, 20, 10),
		}, nil},
		{"without a name: of the user", []episode.Episode{
			night("17", 2, 20, 10), night("18", 3, 20, 10), night("19", 4, 20, 10),
		}, []string{"ann 2026-03 from 04T20: 30"}},
		{"the second month goes on at once", []episode.Episode{
			night("nb-a1", 29, 20, 1), night("nb-b2", 30, 20, 1), night("nb-c3", 31, 20, 1), night("nb-d4", 32, 20, 1),
		}, []string{"nb 2026-03 from 31T20: 3", "nb 2026-04 from 01T20: 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, p := range Find(test.of, utc) {
				got = append(got, p.Workload+" "+p.Start.Format("2006-01")+" from "+p.Known.Format("02T15")+": "+p.WastedGPUHours.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("patterns (-want +got):\n%s", diff)
			}
			for _, e := range test.of {
				if (e.Parent != "") != (len(test.want) > 0) {
					t.Errorf("allocation of %s has parent %q", e.Start, e.Parent)
				}
			}
		})
	}
}

func TestSuspectedTimeIsInNoPattern(t *testing.T) {
	of := []episode.Episode{night("nb-a1", 2, 20, 10), night("nb-b2", 3, 20, 10), night("nb-c3", 4, 20, 10)}
	for i := range of {
		of[i].Grade = episode.Suspected
	}
	if got := Find(of, utc); len(got) > 0 {
		t.Errorf("got %d patterns, want none", len(got))
	}
}

// TestAScheduleIsWhatWasObserved: idle from 20 to 6 every night, and once at noon. Stopped from 20 to 6 it would have
// saved the nights' time, and not the noon's.
func TestAScheduleIsWhatWasObserved(t *testing.T) {
	var of []episode.Episode
	for day := 2; day < 12; day++ {
		of = append(of, night("nb-a1", day, 20, 10))
		if day == 5 {
			of = append(of, night("nb-a1", 6, 12, 3))
		}
	}
	got := Find(of, utc)
	if len(got) != 1 {
		t.Fatalf("%d patterns, want 1", len(got))
	}
	for _, want := range []string{"from 20:00 to 06:00", "100.0 GPU-hours", "100.00 EUR"} {
		if !strings.Contains(got[0].Evidence, want) {
			t.Errorf("evidence %q: want %q", got[0].Evidence, want)
		}
	}
	if got[0].WastedGPUHours.String() != "103" {
		t.Errorf("%s GPU-hours, want 103", got[0].WastedGPUHours)
	}
	// At hours that differ from day to day there is none.
	var scattered []episode.Episode
	for day := 2; day < 12; day++ {
		scattered = append(scattered, night("nb-a1", day, (day*7)%20, 2))
	}
	if p := Find(scattered, utc); len(p) != 1 || strings.Contains(p[0].Evidence, "usually") {
		t.Errorf("got %+v, want a pattern without a schedule", p)
	}
}
