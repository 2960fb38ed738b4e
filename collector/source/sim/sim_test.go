package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/wire"
)

func demo(t testing.TB) *Source {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func on2026(month time.Month, day, hour, minute int) time.Time {
	return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
}

func read(t testing.TB, s *Source, at time.Time, length time.Duration) []*wire.Batch {
	t.Helper()
	batches, err := s.Read(context.Background(), source.At(at, length))
	if err != nil {
		t.Fatal(err)
	}
	return batches
}

// bytesOf encodes what a slot has said, as the slot loop would send it.
func bytesOf(t testing.TB, batches []*wire.Batch) string {
	t.Helper()
	var out strings.Builder
	for _, b := range batches {
		raw, err := wire.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
	}
	return out.String()
}

func ofNode(batches []*wire.Batch, name string) *wire.Batch {
	for _, b := range batches {
		if b.Node == name {
			return b
		}
	}
	return nil
}

func TestReadIsPure(t *testing.T) {
	sequential := demo(t)
	var slots []time.Time
	var want []string
	for at := on2026(9, 1, 0, 0); at.Before(on2026(9, 30, 23, 0)); at = at.Add(97 * time.Minute) {
		slots = append(slots, at)
		want = append(want, bytesOf(t, read(t, sequential, at, time.Minute)))
	}
	shuffled := demo(t)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(slots))
	for _, i := range order {
		if got := bytesOf(t, read(t, shuffled, slots[i], time.Minute)); got != want[i] {
			t.Fatalf("slot %s read in another order differs", slots[i])
		}
	}
	alone := bytesOf(t, read(t, demo(t), slots[200], time.Minute))
	if alone != want[200] {
		t.Errorf("slot %s read alone differs", slots[200])
	}
}

func TestReadIsSafeForConcurrentUse(t *testing.T) {
	s, sequential := demo(t), demo(t)
	at := func(i int) time.Time { return on2026(9, 1+i%28, i%24, i%60) }
	const n = 64
	want := make([]string, n)
	for i := range n {
		want[i] = bytesOf(t, read(t, sequential, at(i), time.Minute))
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			batches, err := s.Read(context.Background(), source.At(at(i), time.Minute))
			if err != nil {
				t.Error(err)
				return
			}
			if got := bytesOf(t, batches); got != want[i] {
				t.Errorf("slot %s read concurrently differs", at(i))
			}
		})
	}
	wg.Wait()
}

func TestSeedChangesTheFleet(t *testing.T) {
	c := DefaultConfig()
	c.Seed = 2
	other, err := New(c, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	at := on2026(9, 8, 15, 0)
	a, b := read(t, demo(t), at, time.Minute), read(t, other, at, time.Minute)
	if a[0].Gpus[0].Uuid == b[0].Gpus[0].Uuid {
		t.Errorf("seeds 1 and 2 give the same GPU %s", a[0].Gpus[0].Uuid)
	}
}

// TestCallerOwnsTheMessages changes whatever a read has answered and reads
// again.
func TestCallerOwnsTheMessages(t *testing.T) {
	s, at := demo(t), on2026(9, 8, 15, 0)
	want := bytesOf(t, read(t, s, at, time.Minute))
	for _, b := range read(t, s, at, time.Minute) {
		for _, g := range b.Gpus {
			for i := range g.MetricFields {
				g.MetricFields[i] = 0
			}
			for _, h := range g.Holds {
				h.Owner.Namespace = "changed"
			}
			for _, l := range g.Leaves {
				*l.SmActive = 9
				clear(l.MetricFields)
			}
		}
	}
	if got := bytesOf(t, read(t, s, at, time.Minute)); got != want {
		t.Error("changing the messages of one read changed the next")
	}
}

func TestCountersCountBatches(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	s, err := New(DefaultConfig(), Deps{Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	// sim-node-4 is down from 22:40:11 on the 23rd.
	for _, minute := range []int{39, 40, 41} {
		read(t, s, on2026(9, 23, 22, minute), time.Minute)
	}
	want := `
# HELP gputally_sim_batches_total Simulated batches by node; a node that reboots has none.
# TYPE gputally_sim_batches_total counter
gputally_sim_batches_total{node="sim-node-1"} 3
gputally_sim_batches_total{node="sim-node-2"} 3
gputally_sim_batches_total{node="sim-node-3"} 3
gputally_sim_batches_total{node="sim-node-4"} 2
# HELP gputally_sim_plans_total Day plans made; more than one a day means that the cache is too small.
# TYPE gputally_sim_plans_total counter
gputally_sim_plans_total 1
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestReadRefusesSlots(t *testing.T) {
	s := demo(t)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		slot source.Slot
		want string
	}{
		{"before the window", context.Background(), source.At(on2026(8, 31, 23, 59), time.Minute), "outside the window"},
		{"after the window", context.Background(), source.At(on2026(10, 1, 0, 0), time.Minute), "outside the window"},
		{"length", context.Background(), source.Slot{Start: on2026(9, 1, 0, 0), Length: 7 * time.Second}, "length 7s"},
		{"alignment", context.Background(), source.Slot{Start: on2026(9, 1, 0, 0).Add(time.Second), Length: time.Minute}, "multiple of 1m0s"},
		{"context", done, source.At(on2026(9, 1, 0, 0), time.Minute), "context canceled"},
	} {
		_, err := s.Read(c.ctx, c.slot)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestIncidentsInEveryMonth(t *testing.T) {
	s := demo(t)
	for month := on2026(1, 1, 0, 0); month.Before(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)); month = month.AddDate(0, 1, 0) {
		got := map[string]int{}
		for _, in := range s.Incidents(month, month.AddDate(0, 1, 0)) {
			got[in.Kind]++
			if in.Start.Before(month) || in.End.After(month.AddDate(0, 1, 0)) {
				t.Errorf("%s: %q runs from %s to %s, out of its month", month.Format("2006-01"), in.Label, in.Start, in.End)
			}
		}
		if diff := cmp.Diff(map[string]int{IdleAllocation: 2, OffHoursSpike: 2}, got); diff != "" {
			t.Errorf("%s: incidents (-want +got):\n%s", month.Format("2006-01"), diff)
		}
	}
}

func TestIncidentsTellTheTruth(t *testing.T) {
	s := demo(t)
	incidents := s.Incidents(on2026(9, 1, 0, 0), on2026(10, 1, 0, 0))
	var got []string
	for _, in := range incidents {
		got = append(got, fmt.Sprintf("%s %s %d %s %s", in.Tenant, in.Start.Format("02T15:04"), len(in.GPUs), in.End.Sub(in.Start), in.Leaf))
	}
	want := []string{
		"vision 08T23:00 6 3h0m0s ",
		"llm-training 12T02:00 8 60h0m0s ",
		"data-science 15T13:00 1 72h0m0s gi13",
		"robotics 19T17:00 12 3h0m0s ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("incidents (-want +got):\n%s", diff)
	}
	c := DefaultConfig()
	c.WindowFrom, c.WindowTo = on2026(1, 1, 0, 0), on2026(13, 1, 0, 0)
	year, err := New(c, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range year.Incidents(c.WindowFrom, c.WindowTo) {
		for _, at := range []time.Time{in.Start, in.Start.Add(in.End.Sub(in.Start) / 2), in.End.Add(-time.Minute)} {
			checkIncident(t, in, read(t, year, at, time.Minute))
		}
	}
}

// checkIncident finds the incident's GPUs held by its tenant alone, idle or at
// work as its kind says.
func checkIncident(t *testing.T, in Incident, batches []*wire.Batch) {
	t.Helper()
	held := 0
	for _, b := range batches {
		for _, g := range b.Gpus {
			for _, h := range g.Holds {
				tenant := h.Owner.Namespace + h.Owner.Account
				if !slices.Contains(in.GPUs, g.Uuid) || in.Leaf != "" && h.Leaf != in.Leaf {
					continue
				}
				held++
				if tenant != in.Tenant || h.FromMs != nil || h.ToMs != nil {
					t.Errorf("%s: %s is held by %s", in.Label, g.Uuid, tenant)
				}
				for _, l := range g.Leaves {
					if busy := *l.SmActive >= 0.005; l.Id == h.Leaf && busy != (in.Kind == OffHoursSpike) {
						t.Errorf("%s: %s has sm_active %v", in.Label, g.Uuid, *l.SmActive)
					}
				}
			}
		}
	}
	if held != len(in.GPUs) {
		t.Errorf("%s: %d holds, want %d", in.Label, held, len(in.GPUs))
	}
}

func TestIncidentEventsLabelBothEnds(t *testing.T) {
	s := demo(t)
	for _, in := range s.Incidents(on2026(9, 1, 0, 0), on2026(10, 1, 0, 0)) {
		for at, code := range map[time.Time]int64{in.Start: IncidentStarts, in.End: IncidentEnds} {
			got := 0
			for _, b := range read(t, s, at, 10*time.Second) {
				for _, e := range b.Events {
					if e.Kind == "incident" && e.Code == code && e.Detail == in.Label && e.AtMs == 0 && slices.Contains(in.GPUs, e.Gpu) {
						got++
					}
				}
			}
			if got != len(in.GPUs) {
				t.Errorf("%s: %d events with code %d at %s, want %d", in.Label, got, code, at, len(in.GPUs))
			}
		}
	}
}
