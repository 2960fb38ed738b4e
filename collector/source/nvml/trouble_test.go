package nvml

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/wire"
)

func TestMissingLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	r := newRig(t, "gpus 1", func(c *Config) { c.Library = path })
	for range 2 {
		b, err := r.try()
		if b != nil || err == nil || !strings.Contains(err.Error(), "nvml.library") || !strings.Contains(err.Error(), path) {
			t.Errorf("Read says %v, want that the library isn't at %s", err, path)
		}
		r.src.Watch()
	}
	r.inits(0, 2)
	if err := os.Symlink(r.sim.NVML(), path); err != nil { // the driver gets installed
		t.Fatal(err)
	}
	if got := len(r.read().Gpus); got != 1 {
		t.Errorf("%d GPUs, want 1", got)
	}
}

// TestNotNVML: a library without the functions is refused before a call ends the
// process.
func TestNotNVML(t *testing.T) {
	r := newRig(t, "gpus 1", func(c *Config) { c.Library = filepath.Join(filepath.Dir(c.Library), "libgpusim.so") })
	if _, err := r.try(); err == nil || !strings.Contains(err.Error(), "libgpusim.so has no function nvmlInit_v2") {
		t.Errorf("Read says %v, want which function is missing", err)
	}
}

// TestOlderLibrary: what it lacks is absent, counted, and never called.
func TestOlderLibrary(t *testing.T) {
	r := newRig(t, "gpus 1")
	r.read()
	for _, symbol := range []string{
		"nvmlDeviceGetMigMode", "nvmlGpmMigSampleGet", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetRemappedRows",
		"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetFieldValues",
	} {
		r.src.lib.has[symbol] = false
	}
	r.src.gpus = map[string]*gpu{}
	before := r.sim.Calls("nvmlDeviceGetMigMode")
	g := r.read().Gpus[0]
	if g.EnergyMj != nil || g.Leaves[0].SmActive != nil || metric(252, g.MetricFields, g.MetricValues) == nil {
		t.Errorf("GPU is %v, want memory, but no energy and no activity", g)
	}
	r.absent(absentSymbol, 4) // energy, memory temperature, clock reasons under both names, remapped rows
	if got := r.sim.Calls("nvmlDeviceGetMigMode"); got != before {
		t.Error("a function that isn't there was called")
	}
}

func TestDriverNotLoaded(t *testing.T) {
	r := newRig(t, "gpus 1; fail nvmlInit_v2 9 1; fail nvmlDeviceGetCount_v2 18 1")
	if _, err := r.try(); err == nil || !strings.Contains(err.Error(), "the kernel module nvidia is not loaded") {
		t.Errorf("Read says %v, want that the module isn't loaded", err)
	}
	r.inits(0, 1)
	if _, err := r.try(); err == nil || !strings.Contains(err.Error(), "the next reading initialises NVML again") {
		t.Errorf("Read says %v, want that it begins anew", err)
	}
	r.inits(1, 1)
	b := r.read()
	r.inits(2, 1)
	if want := []*wire.Event{{AtMs: 9999, Gpu: b.Gpus[0].Uuid, Kind: "reset"}}; !cmp.Equal(want, b.Events, protocmp.Transform()) {
		t.Errorf("events are %v, want a reset: the driver was away, whatever its counters say", b.Events)
	}
	if events := r.read().Events; len(events) != 0 {
		t.Errorf("events are %v, want none: the reset is over", events)
	}
	r.sim.Do("fail nvmlInit_v2 18 1")
	r.src.leave()
	if _, err := r.try(); err == nil || !strings.Contains(err.Error(), "of different versions") {
		t.Errorf("Read says %v, want that versions differ", err)
	}
}

// TestDriverReload: the reading in which it is noticed fails, the next one begins
// anew, with a reset that clears flags, and everything works again.
func TestDriverReload(t *testing.T) {
	r := newRig(t, "gpus 2; mig 1 3g.40gb")
	r.read()
	r.sim.Do("xid 0 95")
	r.await(1)
	if g := r.read().Gpus[0]; !g.Unhealthy {
		t.Error("GPU 0 isn't flagged by XID 95")
	}
	r.pass(9 * time.Second)
	r.sim.Do("driver reload")
	b, err := r.try()
	if b != nil || err == nil || !strings.Contains(err.Error(), "the driver was unloaded or reloaded") {
		t.Errorf("Read says %v (%v), want that the driver was reloaded", err, b)
	}
	r.src.Watch() // the driver is away
	r.pass(3 * time.Second)
	r.src.Watch()
	b = r.read()
	for _, g := range b.Gpus {
		if g.Unhealthy || !g.EnergyReset {
			t.Errorf("after the reload %s is unhealthy %v, energy reset %v; want false, true", g.Uuid, g.Unhealthy, g.EnergyReset)
		}
	}
	if l := b.Gpus[1].Leaves; len(l) != 1 || l[0].GetToMs() != 3000 {
		t.Errorf("leaves are %v, want the one that went with the driver, until that was seen", l)
	}
	r.inits(2, 1)
	r.sim.Do("xid 0 13")
	r.await(1)
	if g := r.read().Gpus[0]; g.EnergyReset || g.Leaves[0].SmActive == nil {
		t.Errorf("GPU 0 has no activity, or is reset again: %v", g)
	}
}

func TestLostAndBack(t *testing.T) {
	r := newRig(t, "gpus 3; mig 1 3g.40gb 4g.40gb")
	first := r.read()
	r.sim.Do("xid 1 79; lost 1")
	r.await(1)
	b := r.read()
	g := b.Gpus[1]
	if g.Uuid != first.Gpus[1].Uuid || !g.Lost || g.Slices != 7 || len(g.Leaves) != 0 || b.Gpus[0].Lost || b.Gpus[2].Lost {
		t.Errorf("GPUs are %v, want the second lost", b.Gpus)
	}
	at := int64(9999)
	want := []*wire.Event{{AtMs: 0, Gpu: g.Uuid, Kind: "xid", Code: 79}, {AtMs: at, Gpu: g.Uuid, Kind: "lost"}}
	if diff := cmp.Diff(want, b.Events, protocmp.Transform()); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
	r.src.Watch()
	r.read()
	// The others' XIDs still come.
	r.awaitRenewed()
	r.sim.Do("xid 2 31")
	r.await(1)
	r.read()
	r.sim.Do("back 1")
	g = r.read().Gpus[1]
	if g.Lost || !g.Unhealthy || len(g.Leaves) != 2 || g.Leaves[0].SmActive != nil {
		t.Errorf("GPU is %v, want back, flagged by XID 79, without activity yet", g)
	}
	if l := r.read().Gpus[1].Leaves[0]; l.SmActive == nil {
		t.Error("the GPU that is back has no activity")
	}
	r.sim.Do("xid 1 31") // it is listened to again
	r.await(1)
}

// TestOthersXIDsWhileOneIsLost: waiting goes on without the lost one, before
// anything is read.
func TestOthersXIDsWhileOneIsLost(t *testing.T) {
	r := newRig(t, "gpus 3")
	r.read()
	r.sim.Do("lost 1")
	r.awaitRenewed()
	r.sim.Do("xid 2 31; xid 0 13")
	r.await(2)
	if strings.Contains(r.logged(), "waiting for XIDs failed") {
		t.Error("waiting ended with the lost GPU")
	}
}

// TestLostBetweenReadings: activity over a time in which the GPU was away is
// nobody's.
func TestLostBetweenReadings(t *testing.T) {
	r := newRig(t, "gpus 1")
	r.read()
	r.pass(2 * time.Second)
	r.sim.Do("lost 0")
	r.src.Watch()
	r.sim.Do("back 0")
	if l := r.read().Gpus[0].Leaves[0]; l.SmActive != nil {
		t.Errorf("SM activity is %v, want none", *l.SmActive)
	}
	if l := r.read().Gpus[0].Leaves[0]; l.SmActive == nil {
		t.Error("SM activity is absent in the slot after")
	}
}

// TestLostWhileItIsRead: the handle is good, a call isn't.
func TestLostWhileItIsRead(t *testing.T) {
	r := newRig(t, "gpus 2")
	r.read()
	r.sim.Do("fail nvmlDeviceGetClockInfo 15 1")
	b := r.read()
	if !b.Gpus[0].Lost || b.Gpus[1].Lost {
		t.Errorf("GPUs are %v, want the first lost", b.Gpus)
	}
	if b = r.read(); b.Gpus[0].Lost {
		t.Error("the GPU is still lost, though it answers")
	}
}

// TestIndicesShift: NVML counts GPUs when it is initialised, and leaves lost
// ones out. GPUs stay who they are; the lost one is missing from a complete
// enumeration, which says the same (R2).
func TestIndicesShift(t *testing.T) {
	r := newRig(t, "gpus 3")
	r.read()
	first := r.read()
	r.sim.Do("lost 0")
	r.read()
	r.slot = r.slot.Next()
	r.pass(renewAfter)
	r.slot.Start = r.sim.Now().Truncate(slotLength)
	b := r.read()
	r.inits(2, 0)
	if len(b.Gpus) != 2 || b.Gpus[0].Uuid != first.Gpus[1].Uuid || b.Gpus[0].Index != 0 || b.Gpus[1].Uuid != first.Gpus[2].Uuid {
		t.Errorf("GPUs are %v, want the second and third at indices 0 and 1", b.Gpus)
	}
	from := r.sim.Now()
	r.near("SM activity", r.read().Gpus[0].Leaves[0].SmActive, r.sim.TruthActivity(gpuAt(1), from, r.sim.Now()))
}

// TestBoardThatCantBeOpened makes the enumeration partial.
func TestBoardThatCantBeOpened(t *testing.T) {
	r := newRig(t, "gpus 2; fail nvmlDeviceGetHandleByIndex_v2 4 1")
	b, err := r.try()
	if err == nil || !strings.Contains(err.Error(), "gpu at index 0: get handle: Insufficient Permissions") {
		t.Errorf("Read says %v, want that index 0 may not be opened", err)
	}
	if len(b.Gpus) != 1 || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("batch has %d GPUs, %v; want 1, partial", len(b.Gpus), b.Enumeration)
	}
	r.read()
}

func TestXIDsAtThreeLevels(t *testing.T) {
	r := newRig(t, "gpus 2; mig 1 3g.40gb/1c+2c 1g.10gb")
	r.read()
	gi := r.read().Gpus[1].Leaves[2].GetGi()
	r.pass(2 * time.Second)
	r.sim.Do("xid 0 79")
	r.await(1)
	r.pass(2 * time.Second)
	r.sim.Do("xid 1/1/1 95; xid 1/11 119; xid 1/1/0 13; sbe 0 1; dbe 1 1")
	r.await(4)
	b := r.read()
	uuid := []string{b.Gpus[0].Uuid, b.Gpus[1].Uuid}
	want := []*wire.Event{
		{AtMs: 2000, Gpu: uuid[0], Kind: "xid", Code: 79},
		{AtMs: 4000, Gpu: uuid[1], Leaf: "gi1ci1", Kind: "xid", Code: 95},
		{AtMs: 4000, Gpu: uuid[1], Leaf: "gi11", Kind: "xid", Code: 119},
		{AtMs: 4000, Gpu: uuid[1], Leaf: "gi1ci0", Kind: "xid", Code: 13},
	}
	if diff := cmp.Diff(want, b.Events, protocmp.Transform()); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
	var flagged []string
	for _, l := range b.Gpus[1].Leaves {
		if l.Unhealthy {
			flagged = append(flagged, l.Id)
		}
	}
	if diff := cmp.Diff([]string{"gi1ci1", "gi11ci0"}, flagged); diff != "" || gi != 11 || !b.Gpus[0].Unhealthy || b.Gpus[1].Unhealthy {
		t.Errorf("flagged leaves differ, or the boards' flags are wrong (-want +got):\n%s", diff)
	}
	if got := testutil.ToFloat64(r.src.metrics.xids.WithLabelValues("taken")); got != 4 {
		t.Errorf("%v XIDs were taken, want 4", got)
	}
	if again := r.read().Events; len(again) != 0 {
		t.Errorf("events are told twice: %v", again)
	}
}

func TestPartOf(t *testing.T) {
	if got := partOf(event(noInstance, noInstance)); got != gpustate.Whole {
		t.Errorf("part is %+v, want the board", got)
	}
	if got := partOf(event(7, noInstance)); got != gpustate.Instance(7) {
		t.Errorf("part is %+v, want GPU instance 7", got)
	}
	if got := partOf(event(7, 0)); got != gpustate.ComputeInstance(7, 0) {
		t.Errorf("part is %+v, want compute instance 7/0", got)
	}
}

// TestWaitingForXIDsFails: it begins anew with the next reading.
func TestWaitingForXIDsFails(t *testing.T) {
	r := newRig(t, "gpus 1; fail nvmlEventSetWait_v2 999 1")
	r.read()
	<-r.src.events.done
	r.read()
	r.sim.Do("xid 0 31")
	r.await(1)
	if got := strings.Count(r.logged(), "waiting for XIDs failed"); got != 1 {
		t.Errorf("it was said %d times, want once:\n%s", got, r.logged())
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	r := newRig(t, "gpus 2; mig 0 1g.10gb*7")
	r.read()
	r.src.Close()
	r.src.Close()
	for alloc, free := range map[string]string{
		"nvmlGpmSampleAlloc": "nvmlGpmSampleFree", "nvmlEventSetCreate": "nvmlEventSetFree", "nvmlInit_v2": "nvmlShutdown",
	} {
		if a, f := r.sim.Calls(alloc), r.sim.Calls(free); a != f || a == 0 {
			t.Errorf("%s was called %d times, %s %d times", alloc, a, free, f)
		}
	}
	r.read() // and it can begin again
}
