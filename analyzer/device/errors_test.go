package device

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputally/gputally/analyzer/episode"
)

func xid(gpu string, h int, code int64) ErrorHour {
	return ErrorHour{Cluster: "c", Node: "n", GPU: gpu, Hour: hour(h), Code: code, Count: 1}
}

func state(gpu string, h int, unhealthyHours float64, workloads ...string) State {
	return State{
		Cluster: "c", GPU: gpu, Model: "H100", Hour: hour(h), UnhealthyMilliMS: uint64(unhealthyHours * 3_600_000 * 1000),
		Workloads: workloads,
	}
}

var errorCases = []struct {
	name   string
	errors []ErrorHour
	states []State
	want   []string
}{
	{"one", []ErrorHour{xid("A", 5, 79)}, nil, []string{"fatal [A/] 5-6 0 h medium"}},
	{"not fatal", []ErrorHour{xid("A", 5, 48)}, nil, []string{"device [A/] 5-6 0 h low"}},
	{"a user's", []ErrorHour{xid("A", 5, 31), xid("A", 5, 43)}, nil, []string{"application [A/] 5-6 0 h info"}},
	{"a day apart", []ErrorHour{xid("A", 5, 48), xid("A", 29, 48)}, nil, []string{"device [A/] 5-30 0 h low"}},
	{
		"more than a day apart",
		[]ErrorHour{xid("A", 5, 48), xid("A", 30, 48)},
		nil,
		[]string{"device [A/] 5-6 0 h low", "device [A/] 30-31 0 h low"},
	},
	{
		"unhealthy afterwards, and before",
		[]ErrorHour{xid("A", 5, 79)},
		[]State{state("A", 3, 1), state("A", 5, 0.5), state("A", 6, 1), state("A", 7, 1), state("A", 90, 1)},
		[]string{"fatal [A/] 5-8 2.5 h medium"},
	},
	{
		"unhealthy for long, then an error again",
		[]ErrorHour{xid("A", 0, 79), xid("A", 40, 79)},
		[]State{state("A", 10, 1), state("A", 20, 1), state("A", 30, 1), state("A", 41, 1)},
		[]string{"fatal [A/] 0-42 4 h medium"},
	},
	{
		"symptoms of one job",
		[]ErrorHour{xid("A", 5, 45), xid("B", 5, 45), xid("B", 5, 79), xid("C", 5, 45), xid("D", 5, 45)},
		[]State{state("A", 5, 0, "j"), state("B", 5, 0, "j"), state("C", 5, 0, "k"), state("D", 5, 0)},
		[]string{"application [C/] 5-6 0 h info", "application [D/] 5-6 0 h info", "fatal [B/ A/] 5-6 0 h medium"},
	},
	{
		"symptoms of another hour",
		[]ErrorHour{xid("A", 5, 79), xid("B", 7, 45)},
		[]State{state("A", 5, 0, "j"), state("B", 7, 0, "j")},
		[]string{"application [B/] 7-8 0 h info", "fatal [A/] 5-6 0 h medium"},
	},
	{
		"a job's own error on several GPUs",
		[]ErrorHour{xid("A", 5, 45), xid("B", 5, 31), xid("C", 5, 45)},
		[]State{state("A", 5, 0, "j"), state("B", 5, 0, "j"), state("C", 5, 0, "j")},
		[]string{"application [A/ B/ C/] 5-6 0 h info"},
	},
	{
		"errors of two GPUs of one job",
		[]ErrorHour{xid("A", 5, 48), xid("B", 5, 79)},
		[]State{state("A", 5, 0, "j"), state("B", 5, 0, "j")},
		[]string{"device [A/] 5-6 0 h low", "fatal [B/] 5-6 0 h medium"},
	},
}

func TestErrorsThatFollowEachOtherAreOneFinding(t *testing.T) {
	for _, test := range errorCases {
		t.Run(test.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for range 5 { // in any order
				rng.Shuffle(len(test.errors), func(i, j int) { test.errors[i], test.errors[j] = test.errors[j], test.errors[i] })
				rng.Shuffle(len(test.states), func(i, j int) { test.states[i], test.states[j] = test.states[j], test.states[i] })
				got := []string{}
				for _, e := range Errors(DefaultConfig(), test.errors, test.states, Newest{}, flatRate{}) {
					e.Rate(episode.DefaultLimits(), 0, e.Known)
					from, to := e.Start.Sub(monday).Hours(), e.End.Sub(monday).Hours()
					got = append(got, fmt.Sprintf("%s %v %g-%g %g h %s", e.Cause, e.Leaves, from, to, e.Observed, e.Severity))
				}
				less := func(a, b string) bool { return a < b }
				if diff := cmp.Diff(test.want, got, cmpopts.SortSlices(less)); diff != "" {
					t.Fatalf("findings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestAFatalErrorIsKnownWhenItsHourEnds: an application's error of the hours before is no alert until then.
func TestAFatalErrorIsKnownWhenItsHourEnds(t *testing.T) {
	e := Errors(DefaultConfig(), []ErrorHour{xid("A", 5, 31), xid("A", 9, 79)}, nil, Newest{"c": hour(9)}, flatRate{})[0]
	e.Rate(episode.DefaultLimits(), 0, e.Known)
	if at := e.Reached[episode.Medium]; !at.Equal(hour(10)) || !e.Start.Equal(hour(5)) || !e.Open {
		t.Errorf("medium from %s on, start %s, open %v; want hours 10 and 5, open", at, e.Start, e.Open)
	}
	before := Errors(DefaultConfig(), []ErrorHour{xid("A", 5, 31)}, nil, Newest{}, flatRate{})[0]
	if before.ID() != e.ID() || !before.Known.Equal(hour(6)) {
		t.Errorf("before the fatal error: id %s, known at %s; want the same id, and hour 6", before.ID(), before.Known)
	}
}

// TestUnhealthyTimeRaisesTheSeverity: 250 GPU-hours at 2 in a day are 500.
func TestUnhealthyTimeRaisesTheSeverity(t *testing.T) {
	var states []State
	for h := range 10 {
		states = append(states, state("A", h, 25))
	}
	e := Errors(DefaultConfig(), []ErrorHour{xid("A", 0, 79)}, states, Newest{}, flatRate{})[0]
	e.Rate(episode.DefaultLimits(), 0, e.Known)
	if e.Severity != episode.High || !e.WastedCost.IsZero() || !e.WastedGPUHours.IsZero() {
		t.Errorf("%+v: want high, and nothing wasted", e)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for _, codes := range [][]int64{{0}, {-1}, {79, 45}} {
		if err := (Config{FatalXIDs: codes}).Validate(); err == nil {
			t.Errorf("fatal_xids %v: no error", codes)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}
