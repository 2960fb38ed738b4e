package dcgm

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/gpusim"
	"github.com/gputally/gputally/internal/wire"
)

func TestWholeGPUsAgreeWithTheModel(t *testing.T) {
	r := newRig(t, "gpus 8; activity 0 0.5 0.4 7; activity 1 0; activity 7 1", nil)
	r.next() // energy counts from the second reading on
	for range 3 {
		from := r.slot.Start
		b := r.next()
		if len(b.Gpus) != 8 || b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
			t.Fatalf("got %d GPUs, enumeration %v, want 8, complete", len(b.Gpus), b.Enumeration)
		}
		for i, g := range b.Gpus {
			what := fmt.Sprintf("GPU %d, slot %s, ", i, from.Format(time.TimeOnly))
			want := r.sim.TruthActivity(gpusim.GPU(i), from, r.slot.Start)
			near(t, what+"SM activity", g.Leaves[0].SmActive, want)
			near(t, what+"engine activity", g.Leaves[0].GrEngineActive, want)
			energy := r.sim.TruthEnergyMillijoules(i, from, r.slot.Start)
			if got := float64(g.GetEnergyMj()); math.Abs(got-energy) > 1 || g.GetEnergySpanMs() != slotMS {
				t.Errorf("%senergy is %v mJ over %d ms, want %v over %d", what, got, g.GetEnergySpanMs(), energy, slotMS)
			}
			if g.Index != uint32(i) || g.Model != "NVIDIA H100 80GB HBM3" || g.Slices != 7 || g.Mig {
				t.Errorf("%sis %v", what, g)
			}
			if _, ok := metric(g.MetricFields, g.MetricValues, 252); !ok || g.Leaves[0].GpuUtil == nil {
				t.Errorf("%smemory in use or utilisation is absent: %v", what, g)
			}
		}
	}
	r.wantCounter("gputally_dcgm_connected", "", 1)
	r.wantCounter("gputally_dcgm_reconnects_total", "", 0)
	r.wantCounter("gputally_dcgm_values_absent_total", "stale", 0)
}

func TestEightTimesSeven(t *testing.T) {
	lines := "gpus 8; mig all 1g.10gb*7"
	for gpu := range 8 {
		for gi := range 7 {
			lines += fmt.Sprintf("; activity %d/%d %.2f 0.05 %d", gpu, 7+gi, 0.1+0.1*float64(gi), 3+gpu)
		}
	}
	r := newRig(t, lines, nil)
	r.next()
	from := r.slot.Start
	b := r.next()
	for i, g := range b.Gpus {
		if len(g.Leaves) != 7 || !g.Mig || g.Slices != 7 {
			t.Fatalf("GPU %d has %d leaves, MIG %v, %d slices, want 7, true, 7", i, len(g.Leaves), g.Mig, g.Slices)
		}
		sum := 0.0
		for k, l := range g.Leaves {
			want := r.sim.TruthActivity(gpusim.ComputeInstance(i, 7+k, 0), from, r.slot.Start)
			near(t, l.Id, l.SmActive, want)
			sum += want / 7
			if l.Profile != "1g.10gb" || l.Slices != 1 || l.GetGi() != uint32(7+k) || l.GetCi() != 0 || l.MigUuid == "" || l.GpuUtil != nil {
				t.Errorf("GPU %d: leaf %d is %v", i, k, l)
			}
		}
		board, ok := metric(g.MetricFields, g.MetricValues, 1002)
		if !ok || math.Abs(board-sum) > 1e-6 {
			t.Errorf("GPU %d: the board's SM activity is %v (%v), want %v", i, board, ok, sum)
		}
	}
	if calls := r.sim.Calls("dcgmEntitiesGetLatestValues"); calls != 2*2+3 {
		t.Errorf("%d calls for latest values, want 2 per reading and 3 for names", calls)
	}
}

func TestMixedProfilesAndPartialComputeInstances(t *testing.T) {
	r := newRig(t, "gpus 3; mig 0 3g.40gb 2g.20gb 1g.10gb 1g.10gb; mig 1 3g.40gb/1c+2c 4g.40gb; mig 2 on", nil)
	r.next()
	b := r.next()
	diff(t, "GPU 0", []life{{"gi2ci0", "3g.40gb", 3, 0, slotMS}, {"gi3ci0", "2g.20gb", 2, 0, slotMS}, {"gi9ci0", "1g.10gb", 1, 0, slotMS}, {"gi10ci0", "1g.10gb", 1, 0, slotMS}}, lives(b.Gpus[0]))
	diff(t, "GPU 1", []life{{"gi2ci0", "1c.3g.40gb", 1, 0, slotMS}, {"gi2ci1", "2c.3g.40gb", 2, 0, slotMS}, {"gi1ci0", "4g.40gb", 4, 0, slotMS}}, lives(b.Gpus[1]))
	diff(t, "GPU 2", []life(nil), lives(b.Gpus[2]))
	if !b.Gpus[2].Mig {
		t.Error("GPU 2 has MIG on without instances, and isn't said to")
	}
}

func TestInfo(t *testing.T) {
	r := newRig(t, "gpus 2", nil)
	b := r.next()
	info := r.src.Info()
	g := info.GPUs[b.Gpus[1].Uuid]
	if info.Driver == "" || info.CUDA != "12.8" || info.DCGM == "" || len(info.GPUs) != 2 {
		t.Errorf("stack is %+v", info)
	}
	if g.VBIOS == "" || g.Serial == "" || g.PCIBusID == "" || g.Minor == nil || *g.Minor != 1 {
		t.Errorf("GPU 1 is %+v", g)
	}
}
