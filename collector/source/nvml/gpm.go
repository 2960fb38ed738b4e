package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/local"
)

// minWindow is the minimum time between two samples: the underlying counters are not refreshed more often (nvml.h,
// nvmlGpmMetricsGet).
const minWindow = 100 * time.Millisecond

// gpmMetrics maps NVML's metrics to DCGM's fields: percent to ratios, MiB/s to B/s.
var gpmMetrics = []struct {
	metric gonvml.GpmMetricId
	field  uint32
	factor float64
	gpu    bool // only whole GPUs have it
}{
	{gonvml.GPM_METRIC_GRAPHICS_UTIL, field.GREngineActive, 0.01, false},
	{gonvml.GPM_METRIC_SM_UTIL, field.SMActive, 0.01, false},
	{gonvml.GPM_METRIC_SM_OCCUPANCY, 1003, 0.01, false},
	{gonvml.GPM_METRIC_ANY_TENSOR_UTIL, 1004, 0.01, false},
	{gonvml.GPM_METRIC_DRAM_BW_UTIL, 1005, 0.01, false},
	{gonvml.GPM_METRIC_FP64_UTIL, 1006, 0.01, false},
	{gonvml.GPM_METRIC_FP32_UTIL, 1007, 0.01, false},
	{gonvml.GPM_METRIC_FP16_UTIL, 1008, 0.01, false},
	{gonvml.GPM_METRIC_PCIE_TX_PER_SEC, 1009, mib, true},
	{gonvml.GPM_METRIC_PCIE_RX_PER_SEC, 1010, mib, true},
}

// samplerKey identifies a sampled GPU instance.
type samplerKey struct {
	gi            int64 // -1: the GPU
	profile, uuid string
}

var boardSampler = samplerKey{gi: -1}

// keyOf is the key of the GPU instance of an only compute instance.
func keyOf(k local.Key) samplerKey { return samplerKey{int64(k.GI), k.Profile, k.UUID} }

// sampler has the last sample, and space for the next.
type sampler struct {
	last, next gonvml.GpmSample
	at         time.Time
	seeded     bool
}

func (s *Source) supportsGPM(dev gonvml.Device) bool {
	if !s.lib.haveAll("nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet",
		"nvmlGpmMigSampleGet", "nvmlGpmMetricsGet") {
		return false
	}
	support, ret := dev.GpmQueryDeviceSupport()
	return ret == gonvml.SUCCESS && support.IsSupportedDevice != 0
}

// sampler returns the sampler of a key and creates it on first use; nil: NVML has no memory for it.
func (s *Source) sampler(g *gpu, key samplerKey) (*sampler, gonvml.Return) {
	if sp := g.samplers[key]; sp != nil {
		return sp, gonvml.SUCCESS
	}
	last, ret := s.lib.api.GpmSampleAlloc()
	if ret != gonvml.SUCCESS {
		return nil, ret
	}
	next, ret := s.lib.api.GpmSampleAlloc()
	if ret != gonvml.SUCCESS {
		_ = last.Free()
		return nil, ret
	}
	sp := &sampler{last: last, next: next}
	g.samplers[key] = sp
	return sp, ret
}

// pruneSamplers frees the samplers of instances that no longer exist, so that one created again starts with a first
// sample.
func (g *gpu) pruneSamplers() {
	for key, sp := range g.samplers {
		wanted := key == boardSampler
		for _, in := range g.instances {
			wanted = wanted || in.whole && keyOf(in.key) == key
		}
		if !wanted {
			g.freeSampler(key, sp)
		}
	}
}

func (g *gpu) freeSamplers() {
	for key, sp := range g.samplers {
		g.freeSampler(key, sp)
	}
}

func (g *gpu) freeSampler(key samplerKey, sp *sampler) {
	_, _ = sp.last.Free(), sp.next.Free()
	delete(g.samplers, key)
}

// activity takes a sample and adds the means since the last one.
func (r *reader) activity(g *gpu, key samplerKey, slot source.Slot, take func(gonvml.GpmSample) gonvml.Return) {
	sp, ret := r.s.sampler(g, key)
	if !r.ok("activity", ret) {
		return
	}
	if ret := take(sp.next); !r.ok("activity", ret) {
		sp.seeded = false
		return
	}
	at := r.s.deps.Clock.Now()
	window := at.Sub(sp.at)
	switch {
	case !sp.seeded:
		r.absent(absentFirstSample)
	case window < minWindow:
		r.absent(absentWindow)
		return // the older sample stays: the next window is long enough
	case window > slot.Length*3/2:
		r.absent(absentWindow)
	default:
		r.means(sp, key == boardSampler)
	}
	sp.last, sp.next = sp.next, sp.last
	sp.at, sp.seeded = at, true
}

// means adds the means between the two samples.
func (r *reader) means(sp *sampler, gpu bool) {
	q := &r.s.query
	q.Sample1, q.Sample2, q.NumMetrics = sp.last, sp.next, 0
	for _, m := range gpmMetrics {
		if gpu || !m.gpu {
			q.Metrics[q.NumMetrics] = gonvml.GpmMetric{MetricId: uint32(m.metric)}
			q.NumMetrics++
		}
	}
	if ret := r.lib.api.GpmMetricsGet(q); !r.ok("activity", ret) {
		return
	}
	for i := range q.NumMetrics {
		m, got := gpmMetrics[i], q.Metrics[i] // those of whole GPUs are the last
		r.got(m.field, got.Value*m.factor, "activity", gonvml.Return(got.NvmlReturn))
	}
}
