package exporter

import (
	"testing"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

func TestWholeGPUHeldByAPod(t *testing.T) {
	r := newRig(t, nil)
	got := r.batch(text(
		"# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n",
		row("DCGM_FI_DEV_GPU_UTIL", h100+owned, 97),
		row("DCGM_FI_DEV_POWER_USAGE", h100+owned, 612.5),
		row("DCGM_FI_DEV_GPU_TEMP", h100+owned, 61),
		row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", h100+owned, 0.93),
		row("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", h100+owned, 0.41),
		row("DCGM_FI_DEV_FB_USED", h100+owned, 70000),
		row("go_goroutines", `x="y"`, 12),
	))
	diff(t, &wire.Batch{
		Format: wire.Format, Cluster: "c", Node: "n1",
		SlotStartMs: start.UnixMilli() - 10_000, SlotMs: 10_000,
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_COMPLETE, Origin: wire.Origin_ORIGIN_LIVE,
		Gpus: []*wire.Gpu{{
			Uuid: "GPU-h", Model: "NVIDIA H100 80GB HBM3", Slices: 7, PowerWatts: ptr(612.5), IdleWatts: ptr(80.0),
			Leaves:       []*wire.Leaf{{Id: "gpu", Slices: 7, GpuUtil: ptr(97.0), GrEngineActive: ptr(0.93)}},
			Holds:        []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "team-a", Pod: "train-0", Container: "main"}}},
			MetricFields: []uint32{150, 252, 1004}, MetricValues: []float64{61, 70000, 0.41},
		}},
	}, got)
	if n := r.counter("gputally_exporter_scrape_series", r.url); n != 7 {
		t.Errorf("series %v, want 7", n)
	}
}

func TestRepeatedRowsAreNeverSummed(t *testing.T) {
	r := newRig(t, nil)
	g := r.gpu(text(
		row("DCGM_FI_DEV_POWER_USAGE", h100+`,namespace="a",pod="p1",vgpu="0"`, 300),
		row("DCGM_FI_DEV_POWER_USAGE", h100+`,namespace="a",pod="p2",vgpu="1"`, 301),
		row("DCGM_FI_DEV_POWER_USAGE", h100+`,namespace="a",pod="p2",vgpu="1"`, 301), // an exact duplicate
		row("DCGM_FI_DEV_POWER_USAGE", h100+`,namespace="a",pod="p2",vgpu="2"`, 300),
		row("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="a",pod="p1",vgpu="0"`, 50),
	))
	if g.GetPowerWatts() != 301 {
		t.Errorf("power %v W, want the greatest row, 301", g.GetPowerWatts())
	}
	p1, p2 := &wire.Owner{Namespace: "a", Pod: "p1"}, &wire.Owner{Namespace: "a", Pod: "p2"}
	diff(t, []*wire.Hold{{Leaf: "gpu", Owner: p1}, {Leaf: "gpu", Owner: p2}, {Leaf: "gpu", Owner: p2}}, g.Holds)
}

func TestContainersOfAPodAreOneOwner(t *testing.T) {
	r := newRig(t, nil)
	g := r.gpu(text(
		row("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="a",pod="p",container="side"`, 5),
		row("DCGM_FI_DEV_GPU_UTIL", h100+`,namespace="a",pod="p",container="main"`, 5),
	))
	diff(t, []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "a", Pod: "p", Container: "main"}}}, g.Holds)
}

func TestMIGBoardValuesCountOnce(t *testing.T) {
	r := newRig(t, nil)
	rows := ""
	for i, power := range []float64{116, 116, 115.5} {
		in := a100 + gi(7+i, "1g.5gb")
		rows += row("DCGM_FI_DEV_POWER_USAGE", in, power) +
			row("DCGM_FI_DEV_GPU_TEMP", in, 40) +
			row("DCGM_FI_DEV_FB_USED", in, 100+i) +
			row("DCGM_FI_DEV_GPU_UTIL", in, 0) +
			row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", in+owned, float64(i)/4)
	}
	g := r.gpu(rows)
	own := func() *wire.Owner { return &wire.Owner{Namespace: "team-a", Pod: "train-0", Container: "main"} }
	leaf := func(id string, n uint32, gr, fb float64) *wire.Leaf {
		return &wire.Leaf{Id: id, Slices: 1, Profile: "1g.5gb", Gi: ptr(n), GrEngineActive: ptr(gr), MetricFields: []uint32{252}, MetricValues: []float64{fb}}
	}
	diff(t, &wire.Gpu{
		Uuid: "GPU-a", Index: 2, Model: "NVIDIA A100-SXM4-40GB", Slices: 7, Mig: true, PowerWatts: ptr(116.0), IdleWatts: ptr(80.0),
		Leaves:       []*wire.Leaf{leaf("gi7", 7, 0, 100), leaf("gi8", 8, 0.25, 101), leaf("gi9", 9, 0.5, 102)},
		Holds:        []*wire.Hold{{Leaf: "gi7", Owner: own()}, {Leaf: "gi8", Owner: own()}, {Leaf: "gi9", Owner: own()}},
		MetricFields: []uint32{150}, MetricValues: []float64{40},
	}, g)
	if n := r.counter("gputally_exporter_values_absent_total", absentMIGUtil); n != 3 {
		t.Errorf("GPU_UTIL ignored on MIG %v times, want 3", n)
	}
}

func TestParentRowBesideInstanceRows(t *testing.T) {
	const board = `gpu="0",UUID="GPU-p",device="nvidia0",Hostname="n1"` // no model name
	r := newRig(t, nil)
	g := r.gpu(text(
		row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", board+owned, 0.99563),
		row("DCGM_FI_DEV_POWER_USAGE", board, 409.692),
		row("DCGM_FI_DEV_FB_USED", board, 4845),
		row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", board+gi(13, "1g.5gb"), 0.995687),
	))
	diff(t, &wire.Gpu{
		Uuid: "GPU-p", Slices: 7, Mig: true, PowerWatts: ptr(409.692),
		Leaves:       []*wire.Leaf{{Id: "gi13", Slices: 1, Profile: "1g.5gb", Gi: ptr(uint32(13)), GrEngineActive: ptr(0.995687)}},
		MetricFields: []uint32{252, 1001}, MetricValues: []float64{4845, 0.99563},
	}, g)
	if n := r.counter("gputally_exporter_parent_owners_ignored_total", ""); n != 1 {
		t.Errorf("ignored owners of the parent row %v, want 1", n)
	}
}

func TestNamesAndLabelsOfAllVersions(t *testing.T) {
	want := func(uuid string) *wire.Gpu {
		return &wire.Gpu{
			Uuid: uuid, Model: "Tesla T4", Slices: 1, Index: 1, PowerWatts: ptr(30.0),
			Leaves:       []*wire.Leaf{{Id: "gpu", Slices: 1, GpuUtil: ptr(40.0), SmActive: ptr(0.5)}},
			Holds:        []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Namespace: "a", Pod: "p"}}},
			MetricFields: []uint32{150, 230, 251}, MetricValues: []float64{55, 31, 0},
		}
	}
	for _, c := range []struct{ name, labels, power, util, sm, temp, xid, uuid string }{
		{
			"classic", `gpu="1",UUID="GPU-t",modelName="Tesla T4",Hostname="n1",namespace="a",pod="p"`,
			"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS", "GPU-t",
		},
		{
			"DCGM 4.6", `gpu="1",UUID="GPU-t",modelName="Tesla T4",hostname="n1",namespace="a",pod="p"`,
			"DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_PROF_SM_UTIL_RATIO", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "DCGM_FI_DEV_XID_ERROR", "GPU-t",
		},
		{
			"1.x", `gpu="1",uuid="GPU-t",model_name="Tesla T4",Hostname="n1",pod_namespace="a",pod_name="p"`,
			"dcgm_power_usage", "dcgm_gpu_utilization", "dcgm_fi_prof_sm_active", "dcgm_gpu_temp", "dcgm_xid_errors", "GPU-t",
		},
		{
			"no UUID", `gpu="1",modelName="Tesla T4",Hostname="n1",namespace="a",pod="p"`,
			"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS", "c/n1/1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newRig(t, nil).batch(text(
				row("DCGM_FI_DEV_FB_FREE", c.labels, 0), row(c.power, c.labels, 30), row(c.util, c.labels, 40), row(c.sm, c.labels, 0.5), row(c.temp, c.labels, 55), row(c.xid, c.labels, 31),
			))
			if b.Node != "n1" {
				t.Errorf("node %q, want n1", b.Node)
			}
			diff(t, []*wire.Gpu{want(c.uuid)}, b.Gpus)
		})
	}
}

func TestImpossibleValuesAreAbsent(t *testing.T) {
	r := newRig(t, nil)
	g := r.gpu(text(
		row("DCGM_FI_DEV_GPU_UTIL", h100, 4294967295),
		row("DCGM_FI_DEV_POWER_USAGE", h100, 0),
		row("DCGM_FI_DEV_MEMORY_TEMP", h100, "9223372036854775794"),
		row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", h100, "140737488355328.0"),
		row("DCGM_FI_PROF_SM_ACTIVE", h100, "NaN"),
		row("DCGM_FI_PROF_DRAM_ACTIVE", h100, 1.294),
		row("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", h100, 1.0004),
		row("DCGM_FI_DEV_XID_ERRORS", h100, 2147483633),
		row("DCGM_FI_DEV_SM_CLOCK", h100, -1),
		row("DCGM_FI_DEV_FB_USED", h100, 0),
	))
	diff(t, &wire.Gpu{
		Uuid: "GPU-h", Model: "NVIDIA H100 80GB HBM3", Slices: 7, IdleWatts: ptr(80.0),
		Leaves:       []*wire.Leaf{{Id: "gpu", Slices: 7}},
		MetricFields: []uint32{252, 1004}, MetricValues: []float64{0, 1},
	}, g)
	for reason, want := range map[string]float64{field.AbsentBlank: 3, field.AbsentNaN: 1, field.AbsentRange: 4} {
		if n := r.counter("gputally_exporter_values_absent_total", reason); n != want {
			t.Errorf("values absent for %q: %v, want %v", reason, n, want)
		}
	}
}

func TestRowsOfOtherDevicesAreNotGPUs(t *testing.T) {
	r := newRig(t, nil)
	gpus := r.gpus(text(
		row("DCGM_FI_DEV_GPU_UTIL", h100, 1),
		row("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", `nvlink="3",gpu="0",gpu_uuid="GPU-x",model_name="NVIDIA H100",hostname="n1"`, 5),
		row("DCGM_FI_DEV_GPU_TEMP", `nvswitch="1",Hostname="n1"`, 50),
		row("DCGM_FI_DEV_GPU_TEMP", `Hostname="n1"`, 50),
	))
	if len(gpus) != 1 || gpus[0].Uuid != "GPU-h" {
		t.Errorf("got %v, want GPU-h alone", gpus)
	}
	if n := r.counter("gputally_exporter_values_absent_total", absentNoGPU); n != 1 {
		t.Errorf("rows without a GPU %v, want 1", n)
	}
}

func TestOneExporterSeveralNodes(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Targets[0].MaxNodes = 2 })
	batches, err := r.read(text(
		row("DCGM_FI_DEV_GPU_UTIL", `gpu="0",UUID="GPU-1",modelName="Tesla T4",Hostname="n2"`, 1),
		row("DCGM_FI_DEV_GPU_UTIL", `gpu="0",UUID="GPU-2",modelName="Tesla T4",Hostname="n1"`, 1),
		row("DCGM_FI_DEV_GPU_TEMP", `gpu="0",UUID="GPU-2",modelName="Tesla T4"`, 50),
		row("DCGM_FI_DEV_GPU_UTIL", `gpu="0",UUID="GPU-3",modelName="Tesla T4"`, 1),
	))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, b := range batches {
		for _, g := range b.Gpus {
			got[b.Node] += g.Uuid
		}
	}
	diff(t, map[string]string{"n1": "GPU-2", "n2": "GPU-1", "fallback": "GPU-3"}, got)
}
