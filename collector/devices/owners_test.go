package devices_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/collector/devices"
	"github.com/gputally/gputally/internal/wire"
)

const who = "tenant project namespace pod container hpc_job shared"

func TestOwnersOfAWholeGPU(t *testing.T) {
	second := proto.CloneOf(train)
	second.Container = "side"
	until := hold("gpu", train)
	until.ToMs = proto.Int64(9_999)
	full := hold("gpu", job)
	full.FromMs, full.ToMs = proto.Int64(9_999), proto.Int64(10_000)
	for name, c := range map[string]struct {
		holds   []*wire.Hold
		want    string
		holders float64
	}{
		"nobody":                       {nil, "", 0},
		"a pod":                        {[]*wire.Hold{hold("gpu", train)}, "research models ml-vision train-0 main", 1},
		"two containers of a pod":      {[]*wire.Hold{hold("gpu", train), hold("gpu", second)}, "research models ml-vision train-0", 1},
		"a job":                        {[]*wire.Hold{hold("gpu", job)}, "science 4711", 1},
		"unassigned":                   {[]*wire.Hold{hold("gpu", &wire.Owner{Tenant: "acme", Project: "p"})}, "unassigned p", 1},
		"two owners":                   {[]*wire.Hold{hold("gpu", train), hold("gpu", serve)}, "true", 2},
		"a pod that ended":             {[]*wire.Hold{until}, "", 0},
		"a job after a pod that ended": {[]*wire.Hold{until, full}, "science 4711", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.observe(batch(0, wholeGPU(c.holds...)))
			r.want(power, who, sample{c.want, 400})
			r.want("DCGM_FI_PROF_SM_ACTIVE", who, sample{c.want, 0.5})
			r.want("gputally_gpu_leaf_holders", who, sample{c.want, c.holders})
			r.want("gputally_gpu_leaf_held_ratio", who, sample{c.want, min(1, c.holders)})
		})
	}
}

func TestLabelsOfAPodThatEndedVanish(t *testing.T) {
	r := newRig(t)
	r.observe(batch(0, wholeGPU(hold("gpu", train))))
	r.to(1)
	r.observe(batch(1, wholeGPU(hold("gpu", serve))))
	r.want(power, "pod", sample{"serve-7", 400})
}

// TestTenantsByHour: the mapping of the tests changes at 13:00.
func TestTenantsByHour(t *testing.T) {
	for n, want := range map[int]string{359: "research models", 360: "renamed ml-vision"} {
		r := newRig(t)
		r.to(n)
		r.observe(batch(n, wholeGPU(hold("gpu", train))))
		r.want(power, "tenant project", sample{want, 400})
	}
}

func TestReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		holds    []*wire.Hold
		replicas uint32
		owner    string
		ratio    float64
	}{
		"one of four":            {[]*wire.Hold{hold("gpu", train)}, 4, "train-0", 0.25},
		"three of four, one pod": {[]*wire.Hold{hold("gpu", train), hold("gpu", train), hold("gpu", train)}, 4, "train-0", 0.75},
		"two pods":               {[]*wire.Hold{hold("gpu", train), hold("gpu", serve)}, 4, "true", 0.5},
		"more than there are":    {[]*wire.Hold{hold("gpu", train), hold("gpu", serve), hold("gpu", job)}, 2, "true", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := wholeGPU(c.holds...)
			g.Leaves[0].Replicas = c.replicas
			r := newRig(t)
			r.observe(batch(0, g))
			r.want("gputally_gpu_leaf_held_ratio", "pod shared", sample{c.owner, c.ratio})
			r.want(power, "pod shared", sample{c.owner, 400}) // once, not once per owner
		})
	}
}

const instance = "GPU_I_ID GPU_I_PROFILE GPU_C_I_ID pod hpc_job shared"

func TestInstances(t *testing.T) {
	r := newRig(t)
	r.observe(batch(0, migGPU(hold("gi1.gone", serve), hold("gi1", job), hold("gi3ci0", train))))
	r.want("DCGM_FI_PROF_SM_ACTIVE", instance, sample{"1 3g.20gb 4711", 0.5}, sample{"3 1c.2g.10gb 0 train-0", 0})
	r.want("DCGM_FI_DEV_FB_USED", instance, sample{"1 3g.20gb 4711", 12_000}, sample{"3 1c.2g.10gb 0 train-0", 10})
	r.want("DCGM_FI_PROF_DRAM_ACTIVE", instance, sample{"1 3g.20gb 4711", 0.25})
	r.want("DCGM_FI_DEV_GPU_TEMP", instance, sample{"true", 61})
	r.want(power, instance, sample{"true", 210})
	r.want("gputally_gpu_leaf_slices", instance, sample{"1 3g.20gb 4711", 3}, sample{"3 1c.2g.10gb 0 train-0", 1})
	r.want("gputally_gpu_leaf_unhealthy", instance, sample{"1 3g.20gb", 0}, sample{"3 1c.2g.10gb 0", 1})
}

// TestABoardWithoutInstancesShowsItsOwn: then nothing is counted twice.
func TestABoardWithoutInstancesShowsItsOwn(t *testing.T) {
	g := migGPU()
	g.Leaves = nil
	r := newRig(t)
	r.observe(batch(0, g))
	r.want("DCGM_FI_DEV_FB_USED", instance, sample{"", 12_010})
	r.want("DCGM_FI_PROF_SM_ACTIVE", instance, sample{"", 0.2})
	r.want("gputally_gpu_slot_bucket_ratio", "bucket", buckets(map[string]float64{"stranded": 1})...)
}

func TestABoardsOwnerHoldsAllOfIt(t *testing.T) {
	full := func(holds ...*wire.Hold) *wire.Gpu {
		g := migGPU(holds...)
		g.Leaves = []*wire.Leaf{
			{Id: "gi1", Slices: 4, Profile: "4g.20gb", Gi: proto.Uint32(1)}, {Id: "gi2", Slices: 3, Profile: "3g.20gb", Gi: proto.Uint32(2)},
		}
		return g
	}
	for name, c := range map[string]struct {
		gpu  *wire.Gpu
		want string
	}{
		"all of it":                     {full(hold("gi1", job), hold("gi2", job)), "4711"},
		"an instance is free":           {full(hold("gi1", job)), ""},
		"two owners":                    {full(hold("gi1", job), hold("gi2", train)), "true"},
		"all instances, not all slices": {migGPU(hold("gi1", job), hold("gi3ci0", job)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.observe(batch(0, c.gpu))
			r.want(power, "hpc_job shared", sample{c.want, 210})
		})
	}
}

func TestAttributionFailed(t *testing.T) {
	r := newRig(t)
	b := batch(0, migGPU(hold("gi1", job)), wholeGPU(hold("gpu", train)))
	b.Attribution, b.Gpus[1].Unhealthy = wire.Attribution_ATTRIBUTION_FAILED, true
	r.observe(b)
	r.want("gputally_attribution_ok", "Hostname", sample{"n1", 0})
	r.want(power, "UUID "+who, sample{"GPU-mig", 210}, sample{"GPU-whole", 400})
	r.want("gputally_gpu_leaf_slices", "UUID GPU_I_ID "+who, sample{"GPU-mig 1", 3}, sample{"GPU-mig 3", 1}, sample{"GPU-whole", 7})
	for _, unknown := range []string{"holders", "held_ratio", "active_ratio", "idle_ratio"} {
		r.want("gputally_gpu_leaf_"+unknown, "UUID")
	}
	r.want("gputally_gpu_unhealthy", "UUID", sample{"GPU-mig", 0}, sample{"GPU-whole", 1})
}

func TestWithoutOwnerLabels(t *testing.T) {
	r := newRig(t, func(cfg *devices.Config, _ *devices.Deps) { cfg.OwnerLabels = false })
	r.observe(batch(0, wholeGPU(hold("gpu", train))))
	r.want(power, who, sample{"", 400})
	r.want("gputally_gpu_leaf_holders", who, sample{"", 1})
}

func TestWithoutInfo(t *testing.T) {
	r := newRig(t, func(_ *devices.Config, deps *devices.Deps) { deps.Info = nil })
	r.observe(batch(0, wholeGPU()))
	r.want("gputally_gpu_info", "UUID device driver", sample{"GPU-whole", 1})
}

// buckets are all seven, those that aren't named 0, in the order of their names.
func buckets(of map[string]float64) (out []sample) {
	for _, b := range []string{"active", "free", "idle", "stranded", "unhealthy", "unobserved", "unproven"} {
		out = append(out, sample{b, of[b]})
	}
	return out
}

func TestBucketsAreTheLedgers(t *testing.T) {
	idle := wholeGPU(hold("gpu", train))
	idle.PowerWatts = proto.Float64(70)
	idle.Leaves[0].SmActive, idle.Leaves[0].GrEngineActive, idle.Leaves[0].GpuUtil = proto.Float64(0), nil, proto.Float64(0)
	lost := wholeGPU()
	lost.Lost = true
	half := batch(0, wholeGPU(hold("gpu", train)))
	half.Observed = []*wire.Interval{{FromMs: 5000, ToMs: 10_000}}
	failed := batch(0, migGPU())
	failed.Attribution = wire.Attribution_ATTRIBUTION_FAILED
	for name, c := range map[string]struct {
		batch *wire.Batch
		want  map[string]float64
	}{
		"at work":            {batch(0, wholeGPU(hold("gpu", train))), map[string]float64{"active": 1}},
		"idle":               {batch(0, idle), map[string]float64{"idle": 1}},
		"lost":               {batch(0, lost), map[string]float64{"unhealthy": 1}},
		"half of it seen":    {half, map[string]float64{"active": 0.5, "unobserved": 0.5}},
		"attribution failed": {failed, map[string]float64{"stranded": 3. / 7, "unobserved": 4. / 7}},
		"instances": {
			batch(0, migGPU(hold("gi1", job), hold("gi3ci0", train))),
			map[string]float64{"active": 1.8 / 7, "free": 1.2 / 7, "stranded": 3. / 7, "unhealthy": 1. / 7},
		},
	} {
		r := newRig(t)
		r.observe(c.batch)
		got := r.samples("gputally_gpu_slot_bucket_ratio", "bucket")
		if diff := cmp.Diff(buckets(c.want), got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		sum := 0.
		for _, s := range got {
			sum += s.Value
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%s: buckets sum to %v, want 1", name, sum)
		}
	}
}

func TestIdleAndActiveOfALeaf(t *testing.T) {
	r := newRig(t)
	g := migGPU(hold("gi1", job), hold("gi3ci0", train))
	g.Leaves[2].Unhealthy = false
	r.observe(batch(0, g))
	r.want("gputally_gpu_leaf_active_ratio", "GPU_I_ID", sample{"1", 1}, sample{"3", 0})
	r.want("gputally_gpu_leaf_idle_ratio", "GPU_I_ID", sample{"1", 0}, sample{"3", 1})
}

// TestAGapInTheSlotIsNobodysUse: the hour decides what it is.
func TestAGapInTheSlotIsNobodysUse(t *testing.T) {
	b := batch(0, wholeGPU(hold("gpu", train)))
	b.Observed = []*wire.Interval{{FromMs: 0, ToMs: 3000}, {FromMs: 7000, ToMs: 10_000}}
	r := newRig(t)
	r.observe(b)
	r.want("gputally_gpu_leaf_active_ratio", "UUID", sample{"GPU-whole", 1})
	if diff := cmp.Diff(buckets(map[string]float64{"active": 0.6, "unobserved": 0.4}), r.samples("gputally_gpu_slot_bucket_ratio", "bucket")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
