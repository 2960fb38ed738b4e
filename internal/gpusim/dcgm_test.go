package gpusim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/gpusim"
)

func TestUnwatchedFieldIsNotWatchedAndBlank(t *testing.T) {
	open(t, "gpus 1")
	if v := read(t, gpu(0), fieldUtil); v.Status != statusNotWatched || v.Int64() != int64Blank || v.TS != 0 {
		t.Errorf("got status %d, value %#x, ts %d, want %d, %#x, 0", v.Status, v.Int64(), v.TS, statusNotWatched, int64Blank)
	}
}

func TestUnsupportedFieldIsOkWithSentinel(t *testing.T) {
	sim := open(t, "gpus 1; mig 0 1g.10gb")
	watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldUtil, fieldRemapFail)
	sim.Advance(2 * time.Second)
	for _, field := range []dcgm.Short{fieldUtil, fieldRemapFail} { // NVML has neither with instances
		if v := read(t, gpu(0), field); v.Status != 0 || v.Int64() != int64NotSupported {
			t.Errorf("field %d: got status %d, value %#x, want 0, %#x", field, v.Status, v.Int64(), int64NotSupported)
		}
	}
}

func TestFirstProfilingSampleIsBlank(t *testing.T) {
	sim := open(t, "gpus 1; activity 0 0.5")
	watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldSM)
	if v := read(t, gpu(0), fieldSM); v.Status != 0 || v.Float64() != float64Blank {
		t.Errorf("at once: got status %d, value %v, want 0 and blank", v.Status, v.Float64())
	}
	sim.Advance(time.Second)
	if v := read(t, gpu(0), fieldSM); v.Status != 0 || v.Float64() != 0.5 {
		t.Errorf("after a second: got status %d, value %v, want 0, 0.5", v.Status, v.Float64())
	}
}

func TestHistoryAgreesWithLatestAndFastestWatcherWins(t *testing.T) {
	sim := open(t, "gpus 1; activity 0 0.5 0.4 13")
	slow := watch(t, 4*time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldSM)
	from := sim.Now()
	sim.Advance(8 * time.Second)
	t.Run("fast", func(t *testing.T) {
		watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldSM)
		sim.Advance(2500 * time.Millisecond)
		values := slow.since(t, from)
		var at []time.Duration
		for _, v := range values {
			at = append(at, time.UnixMicro(v.TS).Sub(from))
		}
		want := []time.Duration{0, 4 * time.Second, 8 * time.Second, 9 * time.Second, 10 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("instants of samples (-want +got):\n%s", diff)
		}
		latest, last := read(t, gpu(0), fieldSM), values[len(values)-1]
		if latest.TS != last.TS || latest.Float64() != last.Float64() {
			t.Errorf("latest is %v at %d, the last of the history %v at %d", latest.Float64(), latest.TS, last.Float64(), last.TS)
		}
	})
}

func TestInstanceFallsThroughToItsGPU(t *testing.T) {
	sim := open(t, "gpus 2; mig 1 3g.40gb 2g.20gb")
	entities := []dcgm.GroupEntityPair{gpu(1), instance(9), computeInstance(9)}
	watch(t, time.Second, entities, fieldEnergy, fieldName, dcgm.Short(252))
	sim.Advance(3 * time.Second)
	want := read(t, gpu(1), fieldEnergy)
	for _, e := range entities[1:] {
		if v := read(t, e, fieldEnergy); v.Int64() != want.Int64() || v.EntityID != e.EntityId {
			t.Errorf("energy of %+v is %d as entity %d, want the GPU's %d", e, v.Int64(), v.EntityID, want.Int64())
		}
	}
	gi, ci, whole := read(t, instance(9), 252), read(t, computeInstance(9), 252), read(t, gpu(1), 252)
	if gi.Int64() != ci.Int64() || gi.Int64() >= whole.Int64() {
		t.Errorf("memory in use is %d of the instance, %d of its compute instance, %d of the GPU", gi.Int64(), ci.Int64(), whole.Int64())
	}
	name := read(t, computeInstance(9), fieldName)
	if *name.StringValue != "2c.2g.20gb" {
		t.Errorf("compute instance is called %q, want 2c.2g.20gb", *name.StringValue)
	}
}

func TestEntityIDsAreReusedAfterReconfiguration(t *testing.T) {
	sim := open(t, "gpus 1; mig 0 1g.10gb*7; activity 0 0.25")
	watch(t, time.Second, []dcgm.GroupEntityPair{instance(0), instance(6)}, fieldName, fieldUUID, fieldSM)
	sim.Advance(2 * time.Second)
	sim.Advance(500 * time.Millisecond) // between two samples
	before := read(t, instance(0), fieldName)
	sim.Do("mig 0 3g.40gb*2; activity 0 0.75")
	after, gone := read(t, instance(0), fieldName), read(t, instance(6), fieldName)
	if gone.Status != statusInstanceNotFound {
		t.Errorf("instance 6 is gone, got status %d, want %d", gone.Status, statusInstanceNotFound)
	}
	if *before.StringValue != "1g.10gb" || *after.StringValue != "1g.10gb" {
		t.Errorf("entity 0 was %q and is %q before the next sample, want 1g.10gb twice", *before.StringValue, *after.StringValue)
	}
	sim.Advance(time.Second)
	after = read(t, instance(0), fieldName)
	if *after.StringValue != "3g.40gb" {
		t.Errorf("entity 0 is %q after the next sample, want 3g.40gb", *after.StringValue)
	}
	if first := read(t, instance(0), fieldSM); first.Float64() != float64Blank && first.Float64() != 0.75 {
		t.Errorf("SM activity of the new instance is %v, want 0.75 of itself or blank", first.Float64())
	}
	group, err := dcgm.CreateGroup("vanished")
	if err != nil {
		t.Fatal(err)
	}
	if err := dcgm.AddEntityToGroup(group, dcgm.FE_GPU_I, 6); err == nil || !strings.Contains(err.Error(), "Bad parameter") {
		t.Errorf("adding the vanished instance: got %v, want bad parameter", err)
	}
}

func TestXIDsAreStoredAtTheLevelWhereTheyHappened(t *testing.T) {
	sim := open(t, "gpus 2; mig 0 1g.10gb*2")
	entities := []dcgm.GroupEntityPair{gpu(0), instance(1), computeInstance(1), gpu(1)}
	w := watch(t, time.Second, entities, fieldXID)
	from := sim.Now()
	sim.Do("at 1 xid 0 79; at 2 xid 0/8 94; at 3 xid 0/8/0 31; at 4 xid 0/8/0 31")
	if v := read(t, gpu(1), fieldXID); v.Status != statusNoData {
		t.Errorf("no XID yet: got status %d, want %d", v.Status, statusNoData)
	}
	sim.Advance(10 * time.Second)
	var got []string
	for _, v := range w.since(t, from) {
		got = append(got, fmt.Sprintf("%v %d: %d at %v", v.EntityGroupId, v.EntityID, v.Int64(), time.UnixMicro(v.TS).Sub(from)))
	}
	want := []string{
		"GPU 0: 79 at 1s",
		"GPU Instance 1: 94 at 2s",
		"GPU Compute Instance 1: 31 at 3s", "GPU Compute Instance 1: 31 at 4s", // one sample per event
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("XIDs (-want +got):\n%s", diff)
	}
}

func TestPolicyHearsOfWholeGPUsOnly(t *testing.T) {
	sim := open(t, "gpus 1; mig 0 1g.10gb")
	ctx, cancel := context.WithCancel(t.Context())
	violations, err := dcgm.ListenForPolicyViolations(ctx, dcgm.XidPolicy)
	if err != nil {
		t.Fatal(err)
	}
	defer stopListening(t, sim, cancel, violations)
	sim.Do("xid 0/7 94; xid 0 79")
	select {
	case v := <-violations:
		if x, ok := v.Data.(dcgm.XidPolicyCondition); !ok || x.ErrNum != 79 {
			t.Errorf("got %+v, want XID 79", v)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no violation was reported")
	}
	select {
	case v := <-violations:
		t.Errorf("got a second violation %+v, want none", v)
	default:
	}
}

// stopListening ends a subscription and waits until go-dcgm has taken it back,
// which it does in a goroutine that reads the handle a later Init writes. That
// goroutine holds the lock that a new subscription, here one that fails, needs.
func stopListening(t *testing.T, sim *gpusim.Sim, cancel func(), violations <-chan dcgm.PolicyViolation) {
	t.Helper()
	cancel()
	for v := range violations {
		t.Errorf("got one more violation %+v", v)
	}
	sim.Do("fail dcgmPolicyGet -3 1; fail dcgmPolicySet -3 1")
	if _, err := dcgm.ListenForPolicyViolations(context.Background(), dcgm.XidPolicy); err == nil {
		t.Error("a subscription without a policy succeeded")
	}
}

func TestHostengineDownAndUp(t *testing.T) {
	sim := open(t, "gpus 1")
	watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldEnergy)
	sim.Do("hostengine down")
	expectCode := func(when string) {
		t.Helper()
		_, err := dcgm.EntityGetLatestValues(dcgm.FE_GPU, 0, []dcgm.Short{fieldEnergy})
		var e *dcgm.Error
		if !errors.As(err, &e) || int(e.Code) != statusNotConnected {
			t.Errorf("%s: got %v, want code %d", when, err, statusNotConnected)
		}
	}
	expectCode("down")
	if _, err := dcgm.Init(dcgm.Standalone, "127.0.0.1:5555", "0"); err != nil {
		t.Logf("connecting while it's down: %v", err) // go-dcgm counts its users: a second Init doesn't connect
	} else {
		_ = dcgm.Shutdown()
	}
	sim.Do("hostengine up")
	expectCode("up, with the old connection")
	if err := dcgm.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if _, err := dcgm.Init(dcgm.Standalone, "127.0.0.1:5555", "0"); err != nil {
		t.Fatal(err)
	}
	if v := read(t, gpu(0), fieldEnergy); v.Status != statusNotWatched {
		t.Errorf("after a new connection: got status %d, want %d: watches are gone", v.Status, statusNotWatched)
	}
}

func TestLimits(t *testing.T) {
	open(t, "gpus 1")
	for i := range 65 {
		_, groupErr := dcgm.CreateGroup(fmt.Sprint("g", i))
		_, fieldErr := dcgm.FieldGroupCreate(fmt.Sprint("f", i), []dcgm.Short{fieldUtil})
		if (groupErr == nil) != (i < 62) || (fieldErr == nil) != (i < 64) { // two groups are DCGM's own
			t.Fatalf("number %d: group %v, field group %v, want 62 and 64 and no more", i+1, groupErr, fieldErr)
		}
	}
	many := make([]dcgm.Short, 129)
	for i := range many {
		many[i] = fieldUtil
	}
	if _, err := dcgm.FieldGroupCreate("many", many); err == nil {
		t.Error("a field group of 129 fields was created, want 128 at most")
	}
}

func TestCallsAreCounted(t *testing.T) {
	sim := open(t, "gpus 1")
	before := sim.Calls("dcgmEntitiesGetLatestValues")
	read(t, gpu(0), fieldUtil)
	read(t, gpu(0), fieldUtil)
	if n := sim.Calls("dcgmEntitiesGetLatestValues") - before; n != 2 {
		t.Errorf("counted %d calls, want 2", n)
	}
}
