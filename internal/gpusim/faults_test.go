package gpusim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

func TestLostGPUComesBack(t *testing.T) {
	sim := open(t, "gpus 3")
	watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0), gpu(1)}, fieldEnergy)
	sim.Advance(time.Second)
	before := read(t, gpu(1), fieldEnergy)
	sim.Do("lost 1")
	supported, err := dcgm.GetSupportedDevices()
	if err != nil || len(supported) != 2 {
		t.Errorf("supported devices are %v (%v), want GPUs 0 and 2", supported, err)
	}
	if v := read(t, gpu(1), fieldEnergy); v.Status != statusLost {
		t.Errorf("lost GPU: got status %d, want %d", v.Status, statusLost)
	}
	if v := read(t, gpu(0), fieldEnergy); v.Status != 0 {
		t.Errorf("other GPU: got status %d, want 0", v.Status)
	}
	group, err := dcgm.CreateGroup("late")
	if err != nil {
		t.Fatal(err)
	}
	if err := dcgm.AddEntityToGroup(group, dcgm.FE_GPU, 1); err == nil || !strings.Contains(err.Error(), "GPU is lost") {
		t.Errorf("adding the lost GPU to a group: got %v, want GPU is lost", err)
	}
	sim.Do("back 1")
	sim.Advance(time.Second)
	if v := read(t, gpu(1), fieldEnergy); v.Status != 0 || v.Int64() <= before.Int64() {
		t.Errorf("back: got status %d, energy %d, want 0 and more than %d", v.Status, v.Int64(), before.Int64())
	}
}

func TestCountersRestart(t *testing.T) {
	for _, line := range []string{"reset 0", "driver reload"} {
		t.Run(line, func(t *testing.T) {
			sim := open(t, "gpus 1; dbe 0 2; rowremap 0 uncorrectable 1")
			watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldEnergy, fieldDBE, 313, 393)
			sim.Advance(10 * time.Second)
			before := read(t, gpu(0), fieldEnergy)
			if v := read(t, gpu(0), fieldDBE); v.Int64() != 2 {
				t.Errorf("volatile DBE before: got %d, want 2", v.Int64())
			}
			sim.Do(line)
			sim.Advance(5 * time.Second)
			if v := read(t, gpu(0), fieldEnergy); v.Status != 0 || v.Int64() >= before.Int64() {
				t.Errorf("energy after: got status %d, %d mJ, want fewer than %d", v.Status, v.Int64(), before.Int64())
			}
			volatile, aggregate, remapped := read(t, gpu(0), fieldDBE), read(t, gpu(0), 313), read(t, gpu(0), 393)
			if volatile.Int64() != 0 || aggregate.Int64() != 2 || remapped.Int64() != 1 {
				t.Errorf("after: volatile %d, aggregate %d, remapped %d, want 0, 2, 1", volatile.Int64(), aggregate.Int64(), remapped.Int64())
			}
		})
	}
}

func TestDriverReloadBlanksAndDropsInstances(t *testing.T) {
	sim := open(t, "gpus 2; mig all 1g.10gb*2; persistence 1 on")
	w := watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldEnergy, 6)
	sim.Advance(time.Second)
	sim.Do("driver reload")
	sim.Advance(time.Second)
	if v := read(t, gpu(0), fieldEnergy); v.Status != statusNoData {
		t.Errorf("a second after: got status %d, want %d", v.Status, statusNoData)
	}
	sim.Advance(2 * time.Second)
	if v := read(t, gpu(0), fieldEnergy); v.Status != 0 {
		t.Errorf("three seconds after: got status %d, want 0", v.Status)
	}
	hierarchy, err := dcgm.GetGPUInstanceHierarchy()
	if err != nil || hierarchy.Count != 4 {
		t.Errorf("got %d entries in the hierarchy (%v), want the persistent GPU's 4", hierarchy.Count, err)
	}
	var binds []int64
	for _, v := range w.since(t, time.Time{}) {
		if v.FieldID == 6 {
			binds = append(binds, v.Int64())
		}
	}
	if len(binds) != 2 || binds[0] != 1 || binds[1] != 2 {
		t.Errorf("bind events are %v, want 1 and 2", binds)
	}
}

func TestStaleTimestamps(t *testing.T) {
	sim := open(t, "gpus 1")
	watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldEnergy)
	sim.Advance(3 * time.Second)
	before := read(t, gpu(0), fieldEnergy)
	sim.Do("stale 0")
	sim.Advance(10 * time.Second)
	if v := read(t, gpu(0), fieldEnergy); v.TS != before.TS || v.Status != 0 || v.Int64() != before.Int64() {
		t.Errorf("stale: got %d at %d, want %d at %d", v.Int64(), v.TS, before.Int64(), before.TS)
	}
	sim.Do("fresh 0")
	sim.Advance(time.Second)
	if v := read(t, gpu(0), fieldEnergy); v.TS <= before.TS {
		t.Errorf("fresh again: ts %d, want later than %d", v.TS, before.TS)
	}
}

func TestBlankLines(t *testing.T) {
	sim := open(t, "gpus 1; util 0 40")
	watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldUtil)
	for _, c := range []struct {
		line   string
		status int
		value  int64
	}{
		{"blank 0 203", statusNoData, int64Blank},
		{"blank 0 203 absent", statusNoData, int64Blank},
		{"blank 0 203 notsupported", 0, int64NotSupported},
		{"blank 0 203 notwatched", statusNotWatched, int64Blank},
		{"blank 0 203 garbage 4294967295", 0, 4294967295},
		{"blank 0 203 off", 0, 40},
	} {
		sim.Do(c.line)
		sim.Advance(time.Second)
		if v := read(t, gpu(0), fieldUtil); v.Status != c.status || v.Int64() != c.value {
			t.Errorf("%s: got status %d, value %#x, want %d, %#x", c.line, v.Status, v.Int64(), c.status, c.value)
		}
	}
}

func TestForcedFailures(t *testing.T) {
	sim := open(t, "gpus 1; fail dcgmGetGpuInstanceHierarchy -29 1; fail-fields 1000-1099 -33")
	if _, err := dcgm.GetGPUInstanceHierarchy(); err == nil || !strings.Contains(err.Error(), "non-root") {
		t.Errorf("first call: got %v, want requires root", err)
	}
	if _, err := dcgm.GetGPUInstanceHierarchy(); err != nil {
		t.Errorf("second call: got %v, want success", err)
	}
	watchErr := func(name string, field dcgm.Short) error {
		fields, err := dcgm.FieldGroupCreate(name, []dcgm.Short{fieldEnergy, field})
		if err != nil {
			t.Fatal(err)
		}
		return dcgm.WatchFieldsWithGroup(fields, dcgm.GroupAllGPUs())
	}
	if err := watchErr("plain", fieldUtil); err != nil {
		t.Errorf("watch of plain fields: %v", err)
	}
	if err := watchErr("profiling", fieldSM); err == nil || !strings.Contains(err.Error(), "not currently loaded") {
		t.Errorf("watch of profiling fields: got %v, want module not loaded", err)
	}
	sim.Do("fail-fields 1000-1099 off")
	if err := watchErr("again", fieldSM); err != nil {
		t.Errorf("watch of profiling fields once it's off: %v", err)
	}
}

func TestGPUWithoutProfiling(t *testing.T) {
	open(t, `gpus 1 model "NVIDIA GeForce RTX 3090"`)
	if _, err := dcgm.GetSupportedMetricGroups(0); err == nil {
		t.Error("metric groups of a GPU without profiling, want an error")
	}
	fields, err := dcgm.FieldGroupCreate("profiling", []dcgm.Short{fieldEnergy, fieldSM})
	if err != nil {
		t.Fatal(err)
	}
	if err := dcgm.WatchFieldsWithGroup(fields, dcgm.GroupAllGPUs()); err == nil {
		t.Error("a watch with profiling fields succeeded, want it to fail as a whole")
	}
}

func TestHealth(t *testing.T) {
	sim := open(t, "gpus 2")
	group := dcgm.GroupAllGPUs()
	if err := dcgm.HealthSet(group, dcgm.DCGM_HEALTH_WATCH_ALL); err != nil {
		t.Fatal(err)
	}
	expect := func(line string, want ...dcgm.HealthCheckErrorCode) {
		t.Helper()
		if line != "" {
			sim.Do(line)
		}
		health, err := dcgm.HealthCheck(group)
		if err != nil {
			t.Fatal(err)
		}
		var got []dcgm.HealthCheckErrorCode
		for _, i := range health.Incidents {
			got = append(got, i.Error.Code)
		}
		if len(got) != len(want) {
			t.Fatalf("after %q: incidents %v, want %v", line, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("after %q: incidents %v, want %v", line, got, want)
			}
		}
	}
	expect("")
	expect("dbe 1 1", dcgm.DCGM_FR_VOLATILE_DBE_DETECTED)
	expect("rowremap 1 failed", dcgm.DCGM_FR_VOLATILE_DBE_DETECTED, dcgm.DCGM_FR_ROW_REMAP_FAILURE)
	expect("replay 0 100", dcgm.DCGM_FR_PCI_REPLAY_RATE, dcgm.DCGM_FR_VOLATILE_DBE_DETECTED, dcgm.DCGM_FR_ROW_REMAP_FAILURE)
}
