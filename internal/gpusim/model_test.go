package gpusim_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/gpusim"
)

func TestEnergyCounterEqualsNumericIntegrationOfPower(t *testing.T) {
	sim := open(t, "gpus 1; power 0 70 700; activity 0 0.5 0.4 37")
	w := watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldPower, fieldEnergy)
	from := sim.Now()
	sim.Advance(60 * time.Second)
	sim.Do("activity 0 0.1 0.1 11") // a change of activity in between
	sim.Advance(60 * time.Second)

	var trapezoidJ float64
	var power, energy []dcgm.FieldValue_v2
	for _, v := range w.since(t, from) {
		if v.FieldID == fieldPower {
			power = append(power, v)
		} else {
			energy = append(energy, v)
		}
	}
	for i := 1; i < len(power); i++ {
		if power[i-1].TS < from.Add(60*time.Second).UnixMicro() || power[i-1].TS > from.Add(60*time.Second).UnixMicro() {
			trapezoidJ += (power[i-1].Float64() + power[i].Float64()) / 2
		} else { // the step itself: use the new activity on both sides
			trapezoidJ += power[i].Float64()
		}
	}
	counterJ := float64(energy[len(energy)-1].Int64()-energy[0].Int64()) / 1e3
	truthJ := sim.TruthEnergyMillijoules(0, from, sim.Now()) / 1e3
	if len(power) != 121 || len(energy) != 121 {
		t.Fatalf("got %d samples of power and %d of energy, want 121 of each", len(power), len(energy))
	}
	if math.Abs(counterJ-truthJ) > 0.002 {
		t.Errorf("counter grew by %.3f J, the model's integral is %.3f J", counterJ, truthJ)
	}
	if math.Abs(counterJ-trapezoidJ)/counterJ > 0.01 {
		t.Errorf("counter grew by %.3f J, the trapezoids of power sum up to %.3f J", counterJ, trapezoidJ)
	}
}

func TestActivityOfMIGSums(t *testing.T) {
	sim := open(t, "gpus 1; mig 0 3g.40gb/1c+2c 2g.20gb; activity 0/1/0 0.9; activity 0/1/1 0.3 0.2 20; activity 0/5 0.5")
	hierarchy, err := dcgm.GetGPUInstanceHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	if hierarchy.Count != 5 {
		t.Fatalf("got %d entries in the hierarchy, want 2 GPU and 3 compute instances", hierarchy.Count)
	}
	entities := []dcgm.GroupEntityPair{gpu(0), instance(0), instance(1), computeInstance(0), computeInstance(1), computeInstance(2)}
	watch(t, time.Second, entities, fieldSM)
	sim.Advance(7 * time.Second)
	var a []float64
	for _, e := range entities {
		v := read(t, e, fieldSM)
		a = append(a, v.Float64())
	}
	gi0 := a[3]/3 + a[4]*2/3
	want := []float64{gi0*3/7 + 0.5*2/7, gi0, 0.5, 0.9, a[4], 0.5}
	for i := range want {
		if math.Abs(a[i]-want[i]) > 1e-9 {
			t.Errorf("SM activity of %+v is %v, want %v", entities[i], a[i], want[i])
		}
	}
	truth := sim.TruthActivity(gpusim.ComputeInstance(0, 1, 1), sim.Now().Add(-time.Second), sim.Now())
	if math.Abs(a[4]-truth) > 1e-12 {
		t.Errorf("SM activity of the 2c instance is %v, the model's mean is %v", a[4], truth)
	}
}

// script goes through everything that moves and prints every value it reads.
func script(t *testing.T, sim *gpusim.Sim) string {
	t.Helper()
	sim.Do("seed 7; gpus 2; mig 1 1g.10gb*7; at 3 xid 0 43; at 4.5 mig 1 3g.40gb*2; at 6 sbe all 3")
	connect(t)
	fields := []dcgm.Short{1, 50, 54, 57, 100, 150, 155, 156, 203, 230, 250, 252, 310, 1001, 1002, 1005, 1009}
	entities := []dcgm.GroupEntityPair{gpu(0), gpu(1), instance(8), instance(9), computeInstance(8)}
	w := watch(t, 500*time.Millisecond, entities, fields...)
	var out strings.Builder
	for range 20 {
		sim.Advance(437 * time.Millisecond)
		values, err := dcgm.EntitiesGetLatestValues(entities, fields, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			fmt.Fprintf(&out, "%d %d %d %d %d %x\n", v.EntityGroupId, v.EntityID, v.FieldID, v.Status, v.TS, v.Value[:8])
		}
	}
	for _, v := range w.since(t, time.Time{}) {
		fmt.Fprintf(&out, "%d %d %d %d %d %x\n", v.EntityGroupId, v.EntityID, v.FieldID, v.Status, v.TS, v.Value[:8])
	}
	return out.String()
}

func TestSameLinesGiveSameBytes(t *testing.T) {
	var first, second string
	t.Run("first", func(t *testing.T) { first = script(t, gpusim.Open(t)) })
	t.Run("second", func(t *testing.T) { second = script(t, gpusim.Open(t)) })
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two runs differ (-first +second):\n%s", diff)
	}
	if len(first) < 10000 {
		t.Errorf("the script printed only %d bytes", len(first))
	}
}

func TestOtherSeedGivesOtherIdentities(t *testing.T) {
	uuid := func(t *testing.T, seed int) string {
		t.Helper()
		sim := open(t, fmt.Sprintf("seed %d; gpus 1", seed))
		watch(t, time.Second, []dcgm.GroupEntityPair{gpu(0)}, fieldUUID)
		sim.Advance(time.Second)
		v := read(t, gpu(0), fieldUUID)
		return *v.StringValue
	}
	seen := map[string]int{}
	for _, seed := range []int{1, 2, 1} {
		t.Run("", func(t *testing.T) { seen[uuid(t, seed)]++ })
	}
	if len(seen) != 2 {
		t.Errorf("got UUIDs %v of seeds 1, 2, 1, want two different ones", seen)
	}
}

func TestBadLinesAreRefusedWithTheirText(t *testing.T) {
	sim := gpusim.Open(t)
	sim.Do("gpus 2; mig 1 1g.10gb")
	for _, c := range []struct{ line, want string }{
		{"frobnicate 1", `unknown verb "frobnicate"`},
		{"gpus 33", `number of GPUs is "33", want a whole number from 0 to 32`},
		{`gpus 1 model "NVIDIA H999"`, `model is "NVIDIA H999", want one of NVIDIA H100`},
		{"activity 0 0.8 0.4 10", "activity 0.8 +- 0.4 leaves 0..1"},
		{"activity 0 0.5 0.1", "AMP without PERIOD_S"},
		{"activity 0 nan", `BASE is "nan"`},
		{"activity 2 0.5", `target is "2", but there are 2 GPUs`},
		{"activity 1/3 0.5", `target is "1/3", but GPU 1 has no GPU instance 3`},
		{"xid 1/7/2 31", `GPU instance 7 has no compute instance 2`},
		{"power 1/7 50 100", `target is "1/7", want GPU or all`},
		{"mig 0 5g.50gb", `profile is "5g.50gb", which NVIDIA H100 80GB HBM3 doesn't have`},
		{"mig 0 4g.40gb*2", "these instances don't fit"},
		{"mig 0 1g.10gb*8", "these instances don't fit"},
		{"mig 0 3g.40gb/2c+2c", "compute instances of 3g.40gb take 4 slices of 3"},
		{"util 0 101", `PERCENT is "101"`},
		{"clock virtual 5", "clock comes before gpus"},
		{"seed 2", "seed comes before gpus"},
		{"hostengine sideways", "want down, up or restart"},
		{"fail-fields x -3", "want FIRST-LAST"},
		{"blank 0 203 garbage", "want blank TARGET FIELD"},
		{"lost", "want lost GPU"},
		{"ecc 0 maybe", "want on or off"},
		{"at 5 frobnicate 0", `"frobnicate 0" begins with no verb`},
	} {
		err := sim.Try(c.line)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), strings.Fields(c.line)[0]) {
			t.Errorf("line %q: got %v, want the line and %q", c.line, err, c.want)
		}
	}
}

func TestLineInThePastIsRefused(t *testing.T) {
	sim := gpusim.Open(t)
	sim.Do("gpus 1")
	sim.Advance(10 * time.Second)
	if err := sim.Try("at 5 xid 0 31"); err == nil || !strings.Contains(err.Error(), "in the past") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestPlacementsAndNVMLIDs(t *testing.T) {
	for _, c := range []struct {
		model, mig string
		want       []uint // NVML GPU instance ids
	}{
		{"NVIDIA H100 80GB HBM3", "1g.10gb*7", []uint{7, 8, 9, 10, 11, 12, 13}},
		{"NVIDIA H100 80GB HBM3", "7g.80gb", []uint{0}},
		{"NVIDIA A100-SXM4-40GB", "4g.20gb 3g.20gb", []uint{1, 2}},
		{"NVIDIA A100-SXM4-40GB", "1g.10gb*4", []uint{3, 4, 5, 6}},
		{"NVIDIA A100-SXM4-80GB", "2g.20gb*3 1g.10gb", []uint{3, 4, 5, 13}},
		{"NVIDIA H200", "3g.71gb 1g.18gb*4", []uint{2, 7, 8, 9, 10}},
		{"NVIDIA A30", "2g.12gb 1g.6gb*2", []uint{1, 5, 6}},
	} {
		t.Run(c.mig, func(t *testing.T) {
			open(t, fmt.Sprintf("gpus 1 model %q; mig 0 %s", c.model, c.mig))
			hierarchy, err := dcgm.GetGPUInstanceHierarchy()
			if err != nil {
				t.Fatal(err)
			}
			var got []uint
			for _, e := range hierarchy.EntityList[:hierarchy.Count] {
				if e.Entity.EntityGroupId == dcgm.FE_GPU_I {
					got = append(got, e.Info.NvmlInstanceId)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("NVML ids (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenRefusesASecondModel(t *testing.T) {
	gpusim.Open(t)
	if err := gpusim.Claim("another"); err == nil || !strings.Contains(err.Error(), t.Name()) {
		t.Errorf("got %v, want a refusal that names %s", err, t.Name())
	}
}
