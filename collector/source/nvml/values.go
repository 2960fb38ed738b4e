package nvml

import (
	"encoding/binary"
	"errors"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/collector/source/local"
)

// DCGM field ids of values that are for display only (dcgm_fields.h).
const (
	fieldSMClock, fieldMemoryClock, fieldClockReasons    = 100, 101, 112
	fieldMemoryTemp                                      = 140
	fieldPCIeReplay, fieldMemoryCopyUtil                 = 202, 204
	fieldFBTotal, fieldFBReserved                        = 250, 253
	fieldRemappedUncorrectable, fieldRemappedCorrectable = 393, 394
)

const (
	mib      = 1 << 20
	milliPer = 1e3
)

// reader collects values of a GPU or an instance. A return code that means that the GPU or the driver is gone ends
// it.
type reader struct {
	s        *Source
	lib      *library
	dev      gonvml.Device
	values   []local.Value
	energyAt time.Time
	fatal    error
}

// got adds a value, or counts why it is absent.
func (r *reader) got(id uint32, v float64, what string, ret gonvml.Return) {
	if r.ok(what, ret) {
		r.values = append(r.values, local.Value{ID: id, V: v})
	}
}

// ok returns whether a call succeeded.
func (r *reader) ok(what string, ret gonvml.Return) bool {
	if ret == gonvml.SUCCESS {
		return true
	}
	if ret == gonvml.ERROR_NO_PERMISSION {
		r.s.sayOnce("no permission to read "+what, "error", ret)
	}
	r.absent(reason(ret))
	if err := callError("read "+what, ret); gone(err) || lost(err) {
		r.fatal = errors.Join(r.fatal, err)
	}
	return false
}

func (r *reader) absent(why string) { r.s.metrics.absent.WithLabelValues(why).Inc() }

// need returns whether the library has a function, and counts a missing one.
func (r *reader) need(symbol string) bool {
	if r.lib.have(symbol) {
		return true
	}
	r.absent(absentSymbol)
	return false
}

// boardReads read a GPU's own values, in order; energy is first, right after its time.
var boardReads = []func(*reader, *gpu){
	(*reader).energy,
	scalar("nvmlDeviceGetPowerUsage", "power", field.PowerWatts, func(d gonvml.Device) (float64, gonvml.Return) {
		mw, ret := d.GetPowerUsage()
		return float64(mw) / milliPer, ret
	}),
	(*reader).temperatures,
	clockOf(fieldSMClock, gonvml.CLOCK_SM), clockOf(fieldMemoryClock, gonvml.CLOCK_MEM), (*reader).clockReasons,
	func(r *reader, _ *gpu) { r.memory() },
	scalar("nvmlDeviceGetPcieReplayCounter", "PCIe replays", fieldPCIeReplay,
		func(d gonvml.Device) (float64, gonvml.Return) {
			n, ret := d.GetPcieReplayCounter()
			return float64(n), ret
		}),
	eccOf(310, gonvml.MEMORY_ERROR_TYPE_CORRECTED, gonvml.VOLATILE_ECC),
	eccOf(311, gonvml.MEMORY_ERROR_TYPE_UNCORRECTED, gonvml.VOLATILE_ECC),
	eccOf(312, gonvml.MEMORY_ERROR_TYPE_CORRECTED, gonvml.AGGREGATE_ECC),
	eccOf(313, gonvml.MEMORY_ERROR_TYPE_UNCORRECTED, gonvml.AGGREGATE_ECC),
	(*reader).remappedRows, (*reader).utilization,
}

// scalar reads a field by a single call.
func scalar(symbol, what string, id uint32, call func(gonvml.Device) (float64, gonvml.Return)) func(*reader, *gpu) {
	return func(r *reader, _ *gpu) {
		if r.need(symbol) {
			v, ret := call(r.dev)
			r.got(id, v, what, ret)
		}
	}
}

func clockOf(id uint32, clock gonvml.ClockType) func(*reader, *gpu) {
	return scalar("nvmlDeviceGetClockInfo", "clocks", id, func(d gonvml.Device) (float64, gonvml.Return) {
		mhz, ret := d.GetClockInfo(clock)
		return float64(mhz), ret
	})
}

func eccOf(id uint32, kind gonvml.MemoryErrorType, counter gonvml.EccCounterType) func(*reader, *gpu) {
	return scalar("nvmlDeviceGetTotalEccErrors", "ECC errors", id, func(d gonvml.Device) (float64, gonvml.Return) {
		n, ret := d.GetTotalEccErrors(kind, counter)
		return float64(n), ret
	})
}

// board reads a GPU and its instances.
func (r *reader) board(g *gpu, slot source.Slot) {
	for _, read := range boardReads {
		if read(r, g); r.fatal != nil {
			return
		}
	}
	if g.gpm {
		r.activity(g, boardSampler, slot, func(sample gonvml.GpmSample) gonvml.Return { return g.dev.GpmSampleGet(sample) })
	}
	for i := range g.instances {
		in := &g.instances[i]
		ir := reader{s: r.s, lib: r.lib, dev: in.dev, values: g.listed[i].Values[:0]}
		ir.instance(g, in, slot)
		g.listed[i].Values = ir.values
		if r.fatal = ir.fatal; r.fatal != nil {
			return
		}
	}
}

func (r *reader) instance(g *gpu, in *instance, slot source.Slot) {
	if in.dev == nil { // without a compute instance nothing can run in it
		return
	}
	r.memory()
	switch {
	case !g.gpm || r.fatal != nil:
	case !in.whole:
		r.absent(absentPartial)
	default:
		gi := int(in.key.GI)
		r.activity(g, keyOf(in.key), slot,
			func(sample gonvml.GpmSample) gonvml.Return { return g.dev.GpmMigSampleGet(gi, sample) })
	}
}

func (r *reader) energy(*gpu) {
	if !r.need("nvmlDeviceGetTotalEnergyConsumption") {
		return
	}
	mj, ret := r.dev.GetTotalEnergyConsumption()
	r.energyAt = r.s.deps.Clock.Now()
	r.got(field.EnergyMJ, float64(mj), "energy", ret)
}

func (r *reader) temperatures(*gpu) {
	switch {
	case r.lib.have("nvmlDeviceGetTemperatureV"):
		t, ret := r.dev.GetTemperatureV().V1()
		r.got(field.GPUTemp, float64(t.Temperature), "temperature", ret)
	case r.need("nvmlDeviceGetTemperature"): // before R560
		c, ret := r.dev.GetTemperature(gonvml.TEMPERATURE_GPU)
		r.got(field.GPUTemp, float64(c), "temperature", ret)
	}
	if !r.need("nvmlDeviceGetFieldValues") {
		return
	}
	values := [1]gonvml.FieldValue{{FieldId: gonvml.FI_DEV_MEMORY_TEMP}}
	ret := r.dev.GetFieldValues(values[:])
	if ret == gonvml.SUCCESS {
		ret = gonvml.Return(values[0].NvmlReturn)
	}
	if ret == gonvml.SUCCESS && values[0].ValueType != uint32(gonvml.VALUE_TYPE_UNSIGNED_INT) {
		ret = gonvml.ERROR_UNKNOWN
	}
	r.got(fieldMemoryTemp, float64(binary.NativeEndian.Uint32(values[0].Value[:4])), "memory temperature", ret)
}

func (r *reader) clockReasons(*gpu) {
	var reasons uint64
	var ret gonvml.Return
	switch { // renamed in R535
	case r.lib.have("nvmlDeviceGetCurrentClocksEventReasons"):
		reasons, ret = r.dev.GetCurrentClocksEventReasons()
	case r.need("nvmlDeviceGetCurrentClocksThrottleReasons"):
		reasons, ret = r.dev.GetCurrentClocksThrottleReasons()
	default:
		return
	}
	r.got(fieldClockReasons, float64(reasons), "clock event reasons", ret)
}

// memory is the framebuffer in MiB of a GPU or MIG device. Without v2 the reserved memory is part of the used, and
// not reported.
func (r *reader) memory() {
	if r.lib.have("nvmlDeviceGetMemoryInfo_v2") {
		m, ret := r.dev.GetMemoryInfo_v2()
		if ret == gonvml.SUCCESS {
			r.framebuffer(m.Total, m.Free, m.Used)
			r.values = append(r.values, local.Value{ID: fieldFBReserved, V: float64(m.Reserved / mib)})
			return
		}
		if ret != gonvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			r.ok("memory", ret)
			return
		}
	}
	if r.need("nvmlDeviceGetMemoryInfo") {
		m, ret := r.dev.GetMemoryInfo()
		if r.ok("memory", ret) {
			r.framebuffer(m.Total, m.Free, m.Used)
		}
	}
}

func (r *reader) framebuffer(total, free, used uint64) {
	r.values = append(r.values,
		local.Value{ID: fieldFBTotal, V: float64(total / mib)},
		local.Value{ID: field.FBFree, V: float64(free / mib)},
		local.Value{ID: field.FBUsed, V: float64(used / mib)},
	)
}

// remappedRows aren't reported while there are MIG instances.
func (r *reader) remappedRows(*gpu) {
	if !r.need("nvmlDeviceGetRemappedRows") {
		return
	}
	corrected, uncorrected, _, failed, ret := r.dev.GetRemappedRows()
	if !r.ok("remapped rows", ret) {
		return
	}
	failure := 0.0
	if failed {
		failure = 1
	}
	r.values = append(r.values,
		local.Value{ID: fieldRemappedUncorrectable, V: float64(uncorrected)},
		local.Value{ID: fieldRemappedCorrectable, V: float64(corrected)},
		local.Value{ID: field.RowRemapFailure, V: failure},
	)
}

// utilization is never reported with MIG: it has no meaning there.
func (r *reader) utilization(g *gpu) {
	if g.mig || !r.need("nvmlDeviceGetUtilizationRates") {
		return
	}
	u, ret := r.dev.GetUtilizationRates()
	if r.ok("utilisation", ret) {
		r.values = append(r.values, local.Value{ID: field.GPUUtil, V: float64(u.Gpu)},
			local.Value{ID: fieldMemoryCopyUtil, V: float64(u.Memory)})
	}
}
