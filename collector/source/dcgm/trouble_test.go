package dcgm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

func TestHostengineGoesAndComesBack(t *testing.T) {
	r := newRig(t, "gpus 2; mig 1 3g.40gb 4g.40gb; activity 0 0.5; activity 1/1 0.25", nil)
	r.next()
	r.next()
	r.watch(3)
	r.sim.Do("hostengine down")
	for range 4 {
		b, err := r.try()
		wantError(t, err, "nv-hostengine at localhost:5555", "(-21)")
		if b != nil {
			t.Errorf("got %v of a host engine that is down", b)
		}
	}
	r.wantCounter("gputally_dcgm_connected", "", 0)
	if lines := strings.Count(r.log.String(), "level=WARN"); lines > 1 {
		t.Errorf("%d warnings of one outage, want one:\n%s", lines, r.log)
	}
	r.sim.Do("hostengine up")
	if b := r.next(); len(b.Gpus) != 2 || b.Gpus[0].EnergyMj == nil || b.Gpus[0].GetEnergySpanMs() < 4*slotMS {
		t.Errorf("batch is %v, want two GPUs and the energy since the last reading", b)
	}
	b := r.next()
	near(t, "GPU", b.Gpus[0].Leaves[0].SmActive, 0.5)
	near(t, "instance", leafOf(t, b.Gpus[1], "gi1ci0").SmActive, 0.25)
	r.wantCounter("gputally_dcgm_connected", "", 1)
	r.wantCounter("gputally_dcgm_reconnects_total", "", 1)
}

// A library and a host engine of different versions: one sentence, no batch, and
// the time is unobserved until both are the same.
func TestVersionMismatchIsSaidOnce(t *testing.T) {
	r := newRig(t, "gpus 1", nil)
	r.next()
	r.sim.Do("fail dcgmEntitiesGetLatestValues -12")
	for range 4 {
		b, err := r.try()
		wantError(t, err, "install the same version", "(-12)")
		if b != nil {
			t.Errorf("got %v of a host engine that isn't understood", b)
		}
	}
	if lines := strings.Count(r.log.String(), "level=WARN"); lines > 1 {
		t.Errorf("%d warnings of one mismatch, want one:\n%s", lines, r.log)
	}
	r.sim.Do("fail dcgmEntitiesGetLatestValues off")
	if b := r.next(); len(b.Gpus) != 1 || len(b.Observed) == 0 && !b.Unobserved {
		t.Errorf("got %v, want the GPU, and the time of the mismatch not observed", b)
	}
}

// A restart is noticed by the first call after it, which connects again: the slot
// has the energy, and lacks the activity.
func TestHostengineRestarts(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5", nil)
	r.next()
	for range 80 { // groups and field groups would run out at 64
		r.watch(9)
		r.sim.Do("hostengine restart")
		if g := r.next().Gpus[0]; g.EnergyMj == nil || g.Leaves[0].SmActive != nil {
			t.Fatalf("GPU is %v, want energy and no activity", g)
		}
	}
	near(t, "SM activity", r.next().Gpus[0].Leaves[0].SmActive, 0.5)
	r.wantCounter("gputally_dcgm_reconnects_total", "", 80)
}

// A host engine that takes connections and does nothing else isn't pestered.
func TestHostengineThatIsOfNoUse(t *testing.T) {
	r := newRig(t, "gpus 1; fail dcgmWatchFields -3", nil)
	for range 6 {
		_, err := r.try()
		wantError(t, err, "watch boards", "(-3)")
	}
	if n := r.counter("gputally_dcgm_reconnects_total", ""); n > 20 {
		t.Errorf("%v connections in a minute, want about 8 s between them", n)
	}
	if n := strings.Count(r.log.String(), "reading DCGM failed"); n < 2 || strings.Count(r.log.String(), "level=WARN msg=\"reading DCGM") != 1 {
		t.Errorf("want one warning:\n%s", r.log)
	}
	r.sim.Do("fail dcgmWatchFields off")
	r.next()
}

func TestLostGPUOverAReconnection(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	uuid := r.next().Gpus[1].Uuid
	r.sim.Do("lost 1")
	r.next()
	r.sim.Do("hostengine restart")
	if g := r.next().Gpus[1]; !g.Lost || g.Uuid != uuid {
		t.Errorf("GPU 1 is %v, want %s as lost", g, uuid)
	}
	r.src.Close()
	r.start() // knows nothing
	b, err := r.try()
	wantError(t, err, "GPU 1", "lost, and never read before")
	if len(b.Gpus) != 1 || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("batch is %v, want GPU 0 alone and partial", b)
	}
}

func TestManyReconfigurations(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	for i := range 80 { // groups would run out at 64
		r.sim.Do([]string{"mig 0 7g.80gb", "mig 0 off", "mig 0 1g.10gb*7", "mig 0 off"}[i%4])
		r.next()
	}
	r.wantCounter("gputally_dcgm_reconnects_total", "", 0)
}

func TestNoHostengineAtAll(t *testing.T) {
	r := newRig(t, "hostengine down", func(c *Config) { c.Address = "node-7:5555" })
	calls := r.sim.Calls("dcgmConnect_v2")
	_, err := r.try()
	wantError(t, err, "connect to nv-hostengine at node-7:5555", "nvidia-dcgm.service")
	if n := r.sim.Calls("dcgmConnect_v2") - calls; n < 2 || n > 5 {
		t.Errorf("%d attempts within a slot, want some, further and further apart", n)
	}
	for range 3 {
		calls = r.sim.Calls("dcgmConnect_v2")
		if _, err := r.try(); err == nil {
			t.Error("no error")
		}
		if r.sim.Calls("dcgmConnect_v2") == calls {
			t.Error("a slot went by without an attempt")
		}
	}
}

func TestGPULostAndBack(t *testing.T) {
	r := newRig(t, "gpus 3; mig 1 1g.10gb*7", nil)
	r.next()
	r.watch(5)
	r.sim.Do("lost 1")
	b := r.next()
	if b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE || len(b.Gpus) != 3 {
		t.Fatalf("batch is %v, want all three and complete", b)
	}
	if g := b.Gpus[1]; !g.Lost || g.Uuid == "" || g.Slices != 7 || len(g.Leaves) > 0 {
		t.Errorf("GPU 1 is %v, want lost", g)
	}
	diff(t, "events", []string{"0"}, events(b, "lost"))
	if b.Gpus[0].Lost || b.Gpus[0].EnergyMj == nil {
		t.Errorf("GPU 0 is %v, want well", b.Gpus[0])
	}
	r.next()
	r.sim.Do("back 1")
	if g := r.next().Gpus[1]; g.Lost || len(g.Leaves) != 7 {
		t.Errorf("GPU 1 is %v, want back", g)
	}
}

// The values say it before the list does.
func TestGPULostBetweenLookAndReading(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	r.next()
	r.watch(9)
	r.pass(time.Second)
	if err := godcgm.InjectFieldValue(1, godcgm.Short(field.EnergyMJ), godcgm.DCGM_FT_INT64, stGPULost, r.clk.Now().UnixMicro(), int64(0)); err != nil {
		t.Fatal(err)
	}
	b, err := r.readNow()
	if err != nil || !b.Gpus[1].Lost || b.Gpus[0].Lost {
		t.Errorf("batch is %v, %v, want GPU 1 lost", b, err)
	}
}

func TestDriverReload(t *testing.T) {
	r := newRig(t, "gpus 2; mig 1 7g.80gb; activity 0 0.5", nil)
	r.next()
	r.sim.Do("xid 0 79")
	if b := r.next(); !b.Gpus[0].Unhealthy {
		t.Fatalf("GPU 0 is %v, want flagged", b.Gpus[0])
	}
	r.watch(4)
	r.sim.Do("driver reload")
	b, err := r.try()
	if err != nil {
		t.Fatal(err)
	}
	if b.Gpus[0].Unhealthy {
		t.Error("GPU 0 is still flagged after the reload")
	}
	diff(t, "events", []string{"0", "0"}, events(b, "reset"))
	for range 2 {
		b = r.next()
		diff(t, "events", []string(nil), events(b, "reset"))
	}
	if len(b.Gpus[1].Leaves) > 0 || b.Gpus[0].EnergyReset || b.Gpus[0].EnergyMj == nil {
		t.Errorf("later the GPUs are %v", b.Gpus)
	}
}

// Field 6 alone tells of it where the energy counter isn't read.
func TestDriverReloadWithoutEnergy(t *testing.T) {
	r := newRig(t, "gpus 2; blank all 156 absent", nil)
	r.next()
	r.watch(4)
	r.sim.Do("driver reload")
	diff(t, "events", []string{"0", "0"}, events(r.next(), "reset"))
	diff(t, "events of the next slot", []string(nil), events(r.next(), "reset"))
}

func TestDriverAway(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	r.next()
	r.sim.Do("fail dcgmGetAllDevices -67")
	for range 2 {
		b, err := r.try()
		wantError(t, err, "driver is detached or being reloaded")
		if b == nil || len(b.Gpus) != 0 || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
			t.Errorf("batch is %v, want an empty partial one", b)
		}
	}
	r.sim.Do("fail dcgmGetAllDevices off")
	b := r.next()
	diff(t, "events", []string{"0", "0"}, events(b, "reset"))
	r.wantCounter("gputally_dcgm_reconnects_total", "", 0)
}

func TestProfilingRefused(t *testing.T) {
	r := newRig(t, "gpus 2; mig 1 1g.10gb*7; fail-fields 1001-1099 -37", nil)
	r.next()
	g := r.next().Gpus[0]
	if g.Leaves[0].SmActive != nil || g.Leaves[0].GrEngineActive != nil {
		t.Errorf("activity is %v, want absent", g.Leaves[0])
	}
	if g.EnergyMj == nil || g.Leaves[0].GpuUtil == nil {
		t.Errorf("GPU is %v, want the rest of its values", g)
	}
	if !strings.Contains(r.log.String(), "another profiler uses the GPU") {
		t.Errorf("the reason wasn't told:\n%s", r.log)
	}
	r.wantCounter("gputally_dcgm_watch_failures_total", watchProfiling, 2) // GPUs, instances
	for range 5 {
		r.next()
	}
	r.wantCounter("gputally_dcgm_watch_failures_total", watchProfiling, 4) // a minute later
	r.sim.Do("fail-fields 1001-1099 off; activity 0 0.5")
	for range 7 {
		g = r.next().Gpus[0]
	}
	near(t, "SM activity", g.Leaves[0].SmActive, 0.5)
	if n := strings.Count(r.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, r.log)
	}
}

func TestBasicProfilingOfOlderGPUs(t *testing.T) {
	r := newRig(t, "gpus 1; activity 0 0.5; fail-fields 1006-1008 -36", nil)
	r.next()
	g := r.next().Gpus[0]
	near(t, "SM activity", g.Leaves[0].SmActive, 0.5)
	if _, ok := metric(g.MetricFields, g.MetricValues, 1004); !ok {
		t.Errorf("tensor activity is absent: %v", g.MetricFields)
	}
	r.wantCounter("gputally_dcgm_watch_failures_total", watchProfiling, 0)
}

func TestProfilingTurnedOff(t *testing.T) {
	r := newRig(t, "gpus 1; fail-fields 1001-1099 -37", func(c *Config) { c.Profiling = false })
	r.next()
	if g := r.next().Gpus[0]; g.Leaves[0].SmActive != nil || g.Leaves[0].GpuUtil == nil {
		t.Errorf("GPU is %v, want utilisation alone", g)
	}
	r.wantCounter("gputally_dcgm_watch_failures_total", watchProfiling, 0)
}

func TestEmbedded(t *testing.T) {
	r := newRig(t, "gpus 2; activity 1 0.5", func(c *Config) { c.Mode = Embedded })
	r.next()
	near(t, "SM activity", r.next().Gpus[1].Leaves[0].SmActive, 0.5)
	if warned := strings.Contains(r.log.String(), "without root"); warned != (os.Geteuid() != 0) {
		t.Errorf("a warning of missing rights: %v, as user %d", warned, os.Geteuid())
	}
}

func TestConnectionString(t *testing.T) {
	r := newRig(t, "gpus 1", func(c *Config) { c.Address = "tcp://localhost:5555" })
	r.next()
	if r.sim.Calls("dcgmConnect_v3") != 2 || r.sim.Calls("dcgmConnect_v2") != 0 {
		t.Errorf("dcgmConnect_v3 was called %d times, v2 %d times, want 2, 0", r.sim.Calls("dcgmConnect_v3"), r.sim.Calls("dcgmConnect_v2"))
	}
}

func TestOneConnectionPerProcess(t *testing.T) {
	r := newRig(t, "gpus 1", nil)
	first := r.src
	r.start()
	_, err := r.try()
	wantError(t, err, "another source of this process is connected")
	first.Close()
	r.next()
}

func TestMissingLibrary(t *testing.T) {
	r := newRig(t, "gpus 1", func(c *Config) { c.Library = "/nonexistent/libdcgm.so.4" })
	_, err := r.try()
	wantError(t, err, "/nonexistent/libdcgm.so.4", "install DCGM 4", "library")
}

func TestLibraryWithoutAFunction(t *testing.T) {
	dir := t.TempDir()
	code, old := filepath.Join(dir, "old.c"), filepath.Join(dir, "libdcgm.so.4")
	source := "int dcgmConnect_v3(void);\n"
	for _, s := range symbols {
		if s != "dcgmGetValuesSince_v2" {
			source += "int " + s + "(void) { return -1; }\n"
		}
	}
	if err := os.WriteFile(code, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), compiler(t), "-shared", "-fPIC", "-o", old, code).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := newRig(t, "gpus 1", func(c *Config) { c.Library = old })
	_, err := r.try()
	wantError(t, err, old, "dcgmGetValuesSince_v2", "update DCGM")

	r.src.Close()
	r.cfg.Address = "unix:///run/dcgm.sock"
	r.start()
	_, err = r.try()
	wantError(t, err, "dcgmConnect_v3", "DCGM 4.5")
}
