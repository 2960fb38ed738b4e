package attribution

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

var (
	t0    = time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)
	slot0 = source.Slot{Start: t0, Length: 10 * time.Second}
)

// script is a reader that answers what the test says.
type script struct {
	name string
	now  Snapshot
	err  error
}

func (s *script) Name() string                           { return s.name }
func (s *script) Read(context.Context) (Snapshot, error) { return s.now, s.err }

func (s *script) holds(hs ...Holding) {
	s.now, s.err = Snapshot{Holdings: hs, Shared: s.now.Shared}, nil
}

// rig polls readers in virtual time.
type rig struct {
	*testing.T
	clock   *clock.Fake
	tracker *Tracker
	readers []*script
}

func newRig(t *testing.T, names ...string) *rig {
	r := &rig{T: t, clock: clock.NewFake(t0)}
	deps := Deps{Node: "n1", Clock: r.clock, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
	for _, n := range names {
		s := &script{name: n}
		r.readers, deps.Readers = append(r.readers, s), append(deps.Readers, s)
	}
	var err error
	if r.tracker, err = New(DefaultConfig(), deps); err != nil {
		t.Fatal(err)
	}
	return r
}

// at moves the clock to a second of the test and polls.
func (r *rig) at(second float64) {
	r.clock.Set(t0.Add(time.Duration(second * float64(time.Second))))
	r.tracker.Poll(r.Context())
}

// polls once a second in [from, to].
func (r *rig) polls(from, to float64) {
	for s := from; s <= to; s++ {
		r.at(s)
	}
}

// mig is a node with a whole board and one with two instances; the second of
// them is a compute instance.
func mig(slot source.Slot) *wire.Batch {
	u := func(n uint32) *uint32 { return &n }
	return &wire.Batch{
		Format: wire.Format, Cluster: "c", Node: "n1", Collector: "n1", SlotStartMs: slot.Start.UnixMilli(), SlotMs: slot.Length.Milliseconds(),
		Gpus: []*wire.Gpu{
			{Uuid: "GPU-a", Slices: 7, Index: 0, Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7}}},
			{Uuid: "GPU-b", Slices: 7, Index: 1, Mig: true, Leaves: []*wire.Leaf{
				{Id: "gi1", Slices: 3, Profile: "3g.40gb", Gi: u(1), MigUuid: "MIG-1"},
				{Id: "gi2ci0", Slices: 2, Profile: "2g.20gb", Gi: u(2), Ci: u(0), MigUuid: "MIG-2"},
			}},
		},
	}
}

func pod(name string) *wire.Owner { return &wire.Owner{Namespace: "ns", Pod: name, Uid: "uid-" + name} }

// held is a hold in short: board/leaf, its ms, the owner.
type held struct {
	at       string
	from, to int64
	owner    string
}

// state attributes the slot and tells what the batch says then. A batch that
// doesn't pass validation, or doesn't settle to its capacity, fails the test.
func (r *rig) state(slot source.Slot, change ...func(*wire.Batch)) (wire.Attribution, []held) {
	r.Helper()
	b := mig(slot)
	for _, c := range change {
		c(b)
	}
	r.tracker.Attribute(slot, []*wire.Batch{b})
	if err := wire.Validate(b); err != nil {
		r.Fatal(err)
	}
	var out []held
	for _, g := range b.Gpus {
		for _, h := range g.Holds {
			from, to := wire.Span(h.FromMs, h.ToMs, b.SlotMs)
			out = append(out, held{g.Uuid + "/" + h.Leaf, from, to, strings.TrimPrefix(h.Owner.Uid, "uid-") + h.Owner.Tenant + h.Owner.Job})
		}
	}
	return b.Attribution, out
}

func (r *rig) want(slot source.Slot, want []held) {
	r.Helper()
	status, got := r.state(slot)
	if status != wire.Attribution_ATTRIBUTION_OK {
		r.Errorf("slot %s: attribution %s, want ok", slot.Start, status)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(held{})); diff != "" {
		r.Errorf("slot %s (-want +got)\n%s", slot.Start, diff)
	}
}

func (r *rig) wantFailed(slot source.Slot) {
	r.Helper()
	if status, got := r.state(slot); status != wire.Attribution_ATTRIBUTION_FAILED || len(got) > 0 {
		r.Errorf("slot %s: attribution %s with %d holds, want failed with none", slot.Start, status, len(got))
	}
}

func board(uuid string) Device { return Device{UUID: uuid} }

func TestAThreeSecondPodIsThere(t *testing.T) {
	r := newRig(t, "kubelet")
	r.polls(0, 3)
	r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: pod("p")})
	r.polls(4, 6)
	r.readers[0].holds()
	r.polls(7, 10)
	r.want(slot0, []held{{"GPU-a/gpu", 4000, 7000, "p"}})
}

func TestAHoldGoesOnOverSlots(t *testing.T) {
	r := newRig(t, "kubelet")
	r.polls(0, 2)
	r.readers[0].holds(Holding{Device: board("MIG-2"), Owner: pod("p")})
	r.polls(3, 9)
	// The reading at the slot's end comes before the poll of that instant.
	r.want(slot0, []held{{"GPU-b/gi2ci0", 3000, 10000, "p"}})
	r.polls(10, 20)
	r.want(slot0.Next(), []held{{"GPU-b/gi2ci0", 0, 10000, "p"}})
	r.readers[0].holds()
	r.at(20.5)
	r.polls(21, 30)
	r.want(slot0.Next().Next(), []held{{"GPU-b/gi2ci0", 0, 500, "p"}})
}

func TestNamesOfDevices(t *testing.T) {
	one, zero, two := uint32(1), uint32(0), uint32(2)
	for _, c := range []struct {
		name   string
		device Device
		want   []string
	}{
		{"board", board("GPU-a"), []string{"GPU-a/gpu"}},
		{"MIG UUID", board("MIG-1"), []string{"GPU-b/gi1"}},
		{"board with instances", board("GPU-b"), []string{"GPU-b/gi1", "GPU-b/gi2ci0"}},
		{"old MIG id", Device{UUID: "GPU-b", GI: &two, CI: &zero}, []string{"GPU-b/gi2ci0"}},
		{"GPU instance", Device{UUID: "GPU-b", GI: &two}, []string{"GPU-b/gi2ci0"}},
		{"compute instance of one whose are not listed", Device{UUID: "GPU-b", GI: &one, CI: &zero}, []string{"GPU-b/gi1"}},
		{"index", Device{Index: &zero}, []string{"GPU-a/gpu"}},
		{"index and GPU instance", Device{Index: &one, GI: &one}, []string{"GPU-b/gi1"}},
		{"minor", Device{Minor: &two, GI: &one}, []string{"GPU-b/gi1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "kubelet")
			five := uint32(5)
			r.tracker.deps.Info = func() source.Info {
				return source.Info{GPUs: map[string]source.GPUInfo{"GPU-a": {Minor: &five}, "GPU-b": {Minor: &two}}}
			}
			r.readers[0].holds(Holding{Device: c.device, Owner: pod("p")})
			r.polls(0, 10)
			var want []held
			for _, at := range c.want {
				want = append(want, held{at, 0, 10000, "p"})
			}
			r.want(slot0, want)
		})
	}
}

// R4: a source of owners that can't be read never makes a GPU free.
func TestR4OwnersThatCannotBeRead(t *testing.T) {
	t.Run("never answered", func(t *testing.T) {
		r := newRig(t, "kubelet")
		r.readers[0].err = errors.New("connect: connection refused")
		r.polls(0, 10)
		r.wantFailed(slot0)
	})
	t.Run("began in mid-slot", func(t *testing.T) {
		r := newRig(t, "kubelet")
		r.polls(4, 10)
		r.wantFailed(slot0)
	})
	t.Run("away for an hour", func(t *testing.T) {
		r := newRig(t, "kubelet")
		r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: pod("p")})
		r.polls(0, 10)
		r.want(slot0, []held{{"GPU-a/gpu", 0, 10000, "p"}})
		r.readers[0].err = errors.New("connect: connection refused")
		slot := slot0
		for slot.Start.Before(t0.Add(time.Hour)) {
			slot = slot.Next()
			for s := range 10 {
				r.at(slot.Start.Add(time.Duration(s+1) * time.Second).Sub(t0).Seconds())
			}
			r.wantFailed(slot)
		}
		if got := testutil.ToFloat64(r.tracker.metrics.failed); got != 360 {
			t.Errorf("%v slots counted as failed, want 360", got)
		}
		// The pod had ended meanwhile.
		r.readers[0].holds()
		slot = slot.Next()
		r.polls(slot.Start.Sub(t0).Seconds()+2, slot.End().Sub(t0).Seconds())
		r.wantFailed(slot) // its first two seconds rest on nothing
		r.polls(slot.End().Sub(t0).Seconds()+1, slot.End().Sub(t0).Seconds()+10)
		r.want(slot.Next(), nil)
	})
	t.Run("a few answers missing", func(t *testing.T) {
		r := newRig(t, "kubelet")
		r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: pod("p")})
		r.polls(0, 3)
		r.readers[0].err = errors.New("deadline exceeded")
		r.polls(4, 7)
		r.readers[0].holds()
		r.polls(8, 10)
		r.want(slot0, []held{{"GPU-a/gpu", 0, 8000, "p"}})
	})
	t.Run("just too many answers missing", func(t *testing.T) {
		r := newRig(t, "kubelet")
		r.polls(0, 3)
		r.readers[0].err = errors.New("deadline exceeded")
		r.polls(4, 8)
		r.readers[0].err = nil
		r.at(8.01)
		r.polls(9, 10)
		r.wantFailed(slot0)
	})
	t.Run("one of two readers", func(t *testing.T) {
		r := newRig(t, "kubelet", "slurm")
		r.readers[1].err = errors.New("no such directory")
		r.polls(0, 10)
		r.wantFailed(slot0)
	})
	t.Run("an answer that names nothing", func(t *testing.T) {
		r := newRig(t, "kubelet")
		r.readers[0].holds(Holding{Owner: pod("p")})
		r.polls(0, 10)
		r.wantFailed(slot0)
	})
}

// A holding whose device was not found must not make its time look free; one
// whose device is certainly gone must not make everybody else's unobserved.
func TestR4HeldDevicesThatAreNotFound(t *testing.T) {
	one, five, nine := uint32(1), uint32(5), uint32(9)
	none := func(*wire.Batch) {}
	noInstance := func(b *wire.Batch) { b.Gpus[1].Leaves = b.Gpus[1].Leaves[1:] }
	nameless := func(b *wire.Batch) { noInstance(b); b.Gpus[1].Leaves[0].MigUuid = "" }
	noBoard := func(b *wire.Batch) { b.Gpus = b.Gpus[1:] }
	lost := func(b *wire.Batch) { b.Gpus[1].Lost, b.Gpus[1].Leaves = true, nil }
	partial := func(b *wire.Batch) { b.Enumeration = wire.Enumeration_ENUMERATION_PARTIAL }
	const ok, failed = wire.Attribution_ATTRIBUTION_OK, wire.Attribution_ATTRIBUTION_FAILED
	for _, c := range []struct {
		name   string
		device Device
		change func(*wire.Batch) // of the second slot
		want   wire.Attribution
		reason string
	}{
		{"instance that was there, by MIG UUID", board("MIG-1"), noInstance, ok, unresolvedGone},
		{"instance that was there, by ids", Device{UUID: "GPU-b", GI: &one}, noInstance, ok, unresolvedGone},
		{"board that was there", board("GPU-a"), noBoard, ok, unresolvedGone},
		{"instance, its board lost", board("MIG-1"), lost, ok, unresolvedGone},
		{"instance that was there, another without a name", board("MIG-1"), nameless, failed, unresolvedInstance},
		{"MIG UUID that never was", board("MIG-9"), none, failed, unresolvedNever},
		{"MIG UUID that never was, a board lost", board("MIG-9"), lost, ok, unresolvedGone},
		{"MIG UUID that never was, a node seen in part", board("MIG-9"), partial, ok, unresolvedGone},
		{"instance that never was", Device{UUID: "GPU-b", GI: &nine}, none, failed, unresolvedNever},
		{"index that never was", Device{Index: &five}, none, failed, unresolvedNever},
		{"board that never was", board("GPU-z"), none, failed, unresolvedNever},
		{"minor, nobody's known", Device{Minor: &nine}, none, failed, unresolvedMinor},
		{"position that may be an instance", Device{Index: &one, Whole: true}, none, failed, unresolvedWhole},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "kubelet")
			r.readers[0].holds(Holding{Device: c.device, Owner: pod("p")})
			r.polls(0, 20)
			r.state(slot0)
			before := testutil.ToFloat64(r.tracker.metrics.unresolved.WithLabelValues(c.reason))
			if got, _ := r.state(slot0.Next(), c.change); got != c.want {
				t.Errorf("attribution %s, want %s", got, c.want)
			}
			if got := testutil.ToFloat64(r.tracker.metrics.unresolved.WithLabelValues(c.reason)) - before; got != 1 {
				t.Errorf("%v counted as %q, want 1", got, c.reason)
			}
		})
	}
}

// A cached answer is as old as it is, however often it is given.
func TestR4AnswersThatAreOld(t *testing.T) {
	r := newRig(t, "slurm")
	r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: pod("p")})
	r.polls(0, 2)
	r.readers[0].now.At = t0.Add(2 * time.Second)
	r.polls(3, 10)
	r.wantFailed(slot0)
	if got := testutil.ToFloat64(r.tracker.metrics.lastGood.WithLabelValues("slurm")); got != float64(t0.Unix()+2) {
		t.Errorf("last success at %v, want when the answer was true", got)
	}
}

// R12: each replica held is an entry of its own, and the known number is the leaf's.
func TestR12Replicas(t *testing.T) {
	r := newRig(t, "kubelet")
	p := pod("p")
	other := &wire.Owner{Namespace: p.Namespace, Pod: p.Pod, Uid: p.Uid, Container: "sidecar"}
	r.readers[0].now.Shared = []Shared{{board("GPU-a"), 4}}
	r.readers[0].holds(
		Holding{Device: board("GPU-a"), Replica: "0", Owner: p}, Holding{Device: board("GPU-a"), Replica: "2", Owner: p},
		Holding{Device: board("GPU-a"), Replica: "2", Owner: other}, // the same pod again
	)
	r.polls(0, 10)
	b := mig(slot0)
	r.tracker.Attribute(slot0, []*wire.Batch{b})
	if got := b.Gpus[0].Leaves[0].Replicas; got != 4 || len(b.Gpus[0].Holds) != 2 {
		t.Errorf("%d replicas, %d holds, want 4 and 2", got, len(b.Gpus[0].Holds))
	}
	var held, free int64
	for _, s := range meter.Classify(b, meter.NewIdentities()) {
		if s.UUID == "GPU-a" {
			for _, row := range s.Rows {
				if row.Bucket == meter.Free {
					free += row.SliceMS
				} else {
					held += row.SliceMS
				}
			}
		}
	}
	if held != 35_000 || free != 35_000 {
		t.Errorf("%d slice-ms held, %d free, want half of 70000 each", held, free)
	}
}

func TestTheFirstReaderDecides(t *testing.T) {
	r := newRig(t, "slurm", "static")
	r.readers[1].holds(Holding{Device: board("GPU-a"), Owner: &wire.Owner{Tenant: "platform"}})
	r.polls(0, 2)
	r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: &wire.Owner{Job: "17"}})
	r.polls(3, 6)
	r.readers[0].holds()
	r.polls(7, 10)
	r.want(slot0, []held{
		{"GPU-a/gpu", 3000, 7000, "17"},
		{"GPU-a/gpu", 0, 3000, "platform"},
		{"GPU-a/gpu", 7000, 10000, "platform"},
	})
}

// R4: nobody can be asked for another node's owners, and that is said.
func TestR4OtherNodesAreNotKnown(t *testing.T) {
	r := newRig(t, "kubelet")
	r.polls(0, 10)
	b := mig(slot0)
	b.Node = "n2"
	b.Gpus[0].Holds = []*wire.Hold{{Leaf: "gpu", Owner: pod("theirs")}}
	r.tracker.Attribute(slot0, []*wire.Batch{b})
	if b.Attribution != wire.Attribution_ATTRIBUTION_FAILED || len(b.Gpus[0].Holds) > 0 || testutil.ToFloat64(r.tracker.metrics.elsewhere) != 1 {
		t.Errorf("another node's batch says %v", b)
	}
}

// R12: who has an entire device has no share of it, whatever another reader says
// of replicas.
func TestR12AnEntireDeviceIsNoReplica(t *testing.T) {
	r := newRig(t, "static", "kubelet")
	r.readers[1].now.Shared = []Shared{{board("GPU-a"), 4}}
	r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: &wire.Owner{Tenant: "research"}})
	r.polls(0, 10)
	b := mig(slot0)
	r.tracker.Attribute(slot0, []*wire.Batch{b})
	if got := b.Gpus[0].Leaves[0].Replicas; got != 0 {
		t.Errorf("%d replicas of a device that is held as one", got)
	}
}

// R11: what was seen of a slot is what has to be known.
func TestR11OnlyTheObservedPartHasToBeKnown(t *testing.T) {
	r := newRig(t, "kubelet")
	r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: pod("p")})
	r.polls(4, 10)
	status, got := r.state(slot0, func(b *wire.Batch) { b.Observed = []*wire.Interval{{FromMs: 4000, ToMs: 10000}} })
	if diff := cmp.Diff([]held{{"GPU-a/gpu", 4000, 10000, "p"}}, got, cmp.AllowUnexported(held{})); diff != "" || status != wire.Attribution_ATTRIBUTION_OK {
		t.Errorf("attribution %s (-want +got)\n%s", status, diff)
	}
}

func TestR11AStepBackBeginsAnew(t *testing.T) {
	r := newRig(t, "kubelet")
	r.readers[0].holds(Holding{Device: board("GPU-a"), Owner: pod("p")})
	r.polls(0, 100)
	r.readers[0].holds()
	r.polls(101, 103)
	// The clock goes back by a minute; the loop waits until it passes 103 again.
	r.polls(43, 110)
	r.want(source.At(t0.Add(100*time.Second), 10*time.Second), nil)
}

func TestRunPollsOnTheSecond(t *testing.T) {
	r := newRig(t, "kubelet")
	r.clock.Set(t0.Add(300 * time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.tracker.Run(ctx) }()
	for range 3 {
		if err := r.clock.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(700 * time.Millisecond)
		if err := r.clock.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(300 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(r.tracker.metrics.polls.WithLabelValues("kubelet", "ok")); got != 3 {
		t.Errorf("%v polls in three seconds, want 3", got)
	}
}
