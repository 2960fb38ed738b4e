package prometheus

import (
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

func TestSlotIsMadeOfItsOwnSamples(t *testing.T) {
	r := newRig(t, nil)
	owned := h100 + `,namespace="team-a",pod="train-0",container="main"`
	r.store("DCGM_FI_DEV_GPU_UTIL", owned, [2]float64{-5, 1}, [2]float64{5, 97}, [2]float64{15, 0}, [2]float64{35, 3})
	r.store("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", owned, [2]float64{-5, 1_000_000}, [2]float64{5, 1_700_000}, [2]float64{15, 2_000_000}, [2]float64{35, 4_000_000})
	r.store("go_goroutines", `x="y"`, [2]float64{5, 1})
	want := &wire.Batch{
		Format: wire.Format, Cluster: "c", Node: "n1", SlotStartMs: start.UnixMilli(), SlotMs: 10_000, ClusterSlotMs: 10_000,
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_COMPLETE,
		Origin: wire.Origin_ORIGIN_IMPORT, WindowFromMs: start.UnixMilli(), WindowToMs: start.UnixMilli() + 60_000,
		Gpus: []*wire.Gpu{{
			Uuid: "GPU-h", Model: "NVIDIA H100 80GB HBM3", Slices: 7, IdleWatts: ptr(80.0),
			EnergyMj: ptr(int64(700_000)), EnergySpanMs: ptr(int64(10_000)), // from the lead-in on
			Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7, GpuUtil: ptr(97.0)}},
			Holds:  []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "team-a", Pod: "train-0", Container: "main"}}},
		}},
	}
	diff(t, []*wire.Batch{want}, r.read(0))
	if got := r.gpu(1); got.GetEnergyMj() != 300_000 || got.Leaves[0].GetGpuUtil() != 0 {
		t.Errorf("second slot: got %v", got)
	}
	if got := r.read(2); len(got) != 0 {
		t.Errorf("a slot without a sample: got %v, want no batch", got)
	}
	if got := r.gpu(3); got.GetEnergySpanMs() != 20_000 || got.GetEnergyMj() != 2_000_000 {
		t.Errorf("after the gap: %d mJ in %d ms, want 2000000 in 20000", got.GetEnergyMj(), got.GetEnergySpanMs())
	}
	if n := r.counter("gputally_prometheus_samples_total"); n != 8 {
		t.Errorf("%v samples read, want each one once: 8", n)
	}
}

func TestLastScrapeOfTheSlotCounts(t *testing.T) {
	r := newRig(t, nil)
	// The first pod's series ends at 4 s; what counts is what was there at 9 s.
	r.store("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="a",pod="first"`, [2]float64{-1, 9}, [2]float64{4, 9})
	r.store("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="a",pod="second"`, [2]float64{9, 5}, [2]float64{14, 6})
	diff(t, []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "a", Pod: "second"}}}, r.gpu(0).Holds)
	diff(t, []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "a", Pod: "second"}}}, r.gpu(1).Holds)
	if n := r.counter("gputally_prometheus_samples_superseded_total"); n != 1 {
		t.Errorf("%v samples superseded, want 1", n)
	}
}

func TestExporterKeepsItsCounterWithAnotherAddress(t *testing.T) {
	r := newRig(t, nil)
	const energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
	held := `,namespace="a",pod="p"`
	r.store(energy, h100+held, [2]float64{3, 1000}, [2]float64{11, 2000})
	r.store(energy, h100+held+`,instance="10.0.0.9:9400"`, [2]float64{18, 2500}, [2]float64{28, 4000})
	r.store("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="a",pod="gone"`, [2]float64{3, 1}, [2]float64{11, 1})
	r.read(0)
	g := r.gpu(1)
	if g.GetEnergyMj() != 1500 || g.GetEnergySpanMs() != 15_000 {
		t.Errorf("slot of both addresses: %d mJ in %d ms, want 1500 in 15000", g.GetEnergyMj(), g.GetEnergySpanMs())
	}
	if len(g.Holds) != 1 || g.Holds[0].Owner.Pod != "p" {
		t.Errorf("slot of both addresses: held by %v, want what the later one shows", g.Holds)
	}
	batches := r.read(2)
	if g := batches[0].Gpus[0]; g.GetEnergyMj() != 1500 || batches[0].Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		t.Errorf("later: %d mJ, %s; want 1500, complete", g.GetEnergyMj(), batches[0].Enumeration)
	}
}

func TestRenamedLabelsOfAJobWhoseGPUsAreFree(t *testing.T) {
	for name, c := range map[string]struct {
		jobs  []string
		holds int
	}{"renamed": {[]string{"dcgm"}, 0}, "plain": {nil, 1}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.jobs = c.jobs
			r.store("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="monitoring",pod="gpu-metrics-x",container="metrics"`, [2]float64{5, 0})
			if got := r.gpu(0).Holds; len(got) != c.holds {
				t.Errorf("holds %v, want %d", got, c.holds)
			}
		})
	}
}

func TestNodesOfOneWindow(t *testing.T) {
	r := newRig(t, nil)
	util := "DCGM_FI_DEV_GPU_UTIL"
	r.store(util, `gpu="0",UUID="GPU-1",modelName="Tesla T4",Hostname="n1",instance="10.0.0.1:9400"`, [2]float64{1, 5})
	r.store(util, `gpu="0",UUID="GPU-2",modelName="Tesla T4",Hostname="n2",instance="10.0.0.2:9400"`, [2]float64{9, 5})
	r.store(util, `gpu="0",UUID="GPU-3",modelName="Tesla T4",instance="n3:9400"`, [2]float64{4, 5})
	r.store(util, `gpu="0",UUID="GPU-4",modelName="Tesla T4",instance="10.0.0.4:9400",node="n4"`, [2]float64{4, 5})
	got := map[string]string{}
	for _, b := range r.read(0) {
		for _, g := range b.Gpus {
			got[b.Node] += g.Uuid
		}
	}
	diff(t, map[string]string{"n1": "GPU-1", "n2": "GPU-2", "n3": "GPU-3", "n4": "GPU-4"}, got)
}

func TestRowsOfNoNodeAreNamed(t *testing.T) {
	r := newRig(t, nil)
	r.store("DCGM_FI_DEV_GPU_UTIL", `gpu="0",UUID="GPU-1",modelName="Tesla T4",instance=""`, [2]float64{1, 5})
	batches, err := r.src.Read(t.Context(), slotAt(0))
	if len(batches) != 0 || err == nil {
		t.Errorf("got %v, %v; want no batch and an error", batches, err)
	}
}

func TestWindowsAreBoundedByPoints(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.FirstWindow, c.PointsPerQuery, c.LeadIn = 20*time.Second, 3, 0
	})
	for s := range 60 {
		if s%5 == 0 {
			r.store("DCGM_FI_DEV_GPU_UTIL", h100, [2]float64{float64(s), 1})
		}
	}
	for n := range 6 {
		if got := r.gpu(n).Leaves[0].GetGpuUtil(); got != 1 {
			t.Errorf("slot %d: utilisation %v", n, got)
		}
	}
	// 20 s had 4 samples, so that 3 are in 15 s: a slot each from then on.
	if len(r.queries) != 5 {
		t.Errorf("%d queries, want one of 20 s and four of a slot: %q", len(r.queries), r.queries)
	}
	if n := r.counter("gputally_prometheus_samples_total"); n != 12 {
		t.Errorf("%v samples read, want each one once: 12", n)
	}
}

// TestGenerationsInAHistory: what dcgm-exporter 4.9 shows in base units is what
// earlier ones showed in theirs, also where the exporter was updated in between.
func TestGenerationsInAHistory(t *testing.T) {
	newer := strings.Replace(h100, "Hostname", "hostname", 1)
	both := func(from, to float64, r *rig, labels string, series map[string]float64) {
		for name, scale := range series {
			value := map[string]float64{"ENERGY": 5_000_000, "UTIL": 29, "FB_": 70_000, "CLOCK": 1980}
			for part, v := range value {
				if strings.Contains(name, part) {
					r.store(name, labels, [2]float64{from, v * scale}, [2]float64{to, v * scale * 2})
				}
			}
		}
	}
	classic := map[string]float64{
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1, "DCGM_FI_DEV_GPU_UTIL": 1, "DCGM_FI_DEV_FB_USED": 1, "DCGM_FI_DEV_SM_CLOCK": 1,
	}
	base := map[string]float64{
		"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": 0.001, "DCGM_FI_DEV_GPU_UTIL_RATIO": 0.01,
		"DCGM_FI_DEV_FB_USED_BYTES": 1 << 20, "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1e6,
	}
	old, updated, all := newRig(t, nil), newRig(t, nil), newRig(t, nil)
	both(5, 15, old, h100, classic)
	both(5, 15, all, newer, base)
	for name := range classic { // the second scrape is the new exporter's
		updated.store(name, h100, [2]float64{5, map[byte]float64{'T': 5_000_000, 'G': 29, 'F': 70_000, 'S': 1980}[name[12]]})
	}
	updated.store("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", newer, [2]float64{15, 10_000})
	updated.store("DCGM_FI_DEV_GPU_UTIL_RATIO", newer, [2]float64{15, 0.58})
	updated.store("DCGM_FI_DEV_FB_USED_BYTES", newer, [2]float64{15, 140_000 << 20})
	updated.store("DCGM_FI_DEV_SM_CLOCK_HERTZ", newer, [2]float64{15, 3960e6})
	for n := range 2 {
		want := old.read(n)
		if g := want[0].Gpus[0]; g.Leaves[0].GetGpuUtil() != float64(29*(n+1)) || n == 1 && g.GetEnergyMj() != 5_000_000 {
			t.Fatalf("slot %d: got %v", n, g)
		}
		diff(t, want, all.read(n))
		diff(t, want, updated.read(n))
	}
}
