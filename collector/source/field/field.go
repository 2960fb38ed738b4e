package field

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// DCGM field ids (dcgm_fields.h) that decide something.
const (
	MIGMode         = 67
	MIGMaxSlices    = 69
	GPUTemp         = 150
	PowerWatts      = 155
	EnergyMJ        = 156
	GPUUtil         = 203
	XID             = 230
	FBFree          = 251
	FBUsed          = 252
	RowRemapFailure = 395
	GREngineActive  = 1001
	SMActive        = 1002
)

// Field is one quantity as DCGM measures it: its names over the versions, and
// the range outside of which a value is impossible. Names, Min, Max and every
// value that leaves this package are in Unit.
type Field struct {
	ID       uint32
	Names    []string // classic, renamed in DCGM 4.6, dcgm-exporter 1.x; the first is shown
	Unit     Unit     // empty: HELP texts are not compared with it
	Min, Max float64
	Instance bool // measured per MIG instance; else the board's, repeated
	Counter  bool // only grows, until a reset. dcgm-exporter's own list says counter for rates as well
	// Help is what the field is, after dcgm_fields.h and with its unit; empty: a batch
	// does not carry the field.
	Help string
	Base Base
}

// Base is the same quantity as a DCGM field of its own in a base unit (DCGM 4.7,
// dcgm-exporter 4.9). The zero Base: there is none.
type Base struct {
	ID   uint32
	Name string
	Unit Unit
	// Times and Per turn Unit into the field's: v*Times/Per, exact for whole values.
	Times, Per float64
	// Slack is by how much, in the field's Unit, the two may differ where both are
	// shown: they are read one after the other, and rounded differently.
	Slack float64
}

// ByID finds a field by DCGM's id; nil: it isn't known here.
func ByID(id uint32) *Field { return byID[id] }

// Names are all names that are read, ascending.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }

// WithBase are the fields that have a Base, by id.
func WithBase() []*Field { return withBase }

// OnInstance says whether a value of the field on an instance's row is the
// instance's own and not the board's, repeated.
func OnInstance(id uint32) bool {
	f := byID[id]
	return f != nil && f.Instance
}

const maxCounter = 1 << 53 // above it a text counter is not exact

var fields = []Field{
	level(MIGMode, "", 1, "DCGM_FI_DEV_MIG_MODE", "MIG mode (1: on)."),
	level(MIGMaxSlices, "", 64, "DCGM_FI_DEV_MIG_MAX_SLICES", "").atLeast(1),
	level(100, MHz, 10_000, "DCGM_FI_DEV_SM_CLOCK dcgm_sm_clock", "SM clock (MHz).").
		also(hertz(1603, "DCGM_FI_DEV_SM_CLOCK_HERTZ")),
	level(101, MHz, 20_000, "DCGM_FI_DEV_MEM_CLOCK dcgm_memory_clock", "Memory clock (MHz).").
		also(hertz(1604, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ")),
	level(140, Celsius, 200, "DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_MEMORY_TEMP_CELSIUS dcgm_memory_temp",
		"Memory temperature (degrees C)."),
	level(GPUTemp, Celsius, 200, "DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_TEMP_CELSIUS dcgm_gpu_temp",
		"GPU temperature (degrees C)."),
	// Board power above the limit is real (600 W on 400 W parts); 0 W is not.
	level(PowerWatts, Watt, 5_000, "DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_BOARD_POWER_WATTS dcgm_power_usage",
		"Mean power of the board in the slot (W).").atLeast(math.SmallestNonzeroFloat64),
	level(EnergyMJ, Millijoule, maxCounter, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION dcgm_total_energy_consumption", "").
		also(Base{1611, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", Joule, 1000, 1, 100_000}),
	counter(202, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_PCIE_REPLAY_TOTAL dcgm_pcie_replay_counter",
		"PCIe replays."),
	// GPU_UTIL_RATIO is 0 to 100 in DCGM 4.6, in spite of the name: see Generation.
	level(GPUUtil, Percent, 100, "DCGM_FI_DEV_GPU_UTIL "+gpuUtilRatio+" dcgm_gpu_utilization", "GPU utilisation (%).").
		also(Base{1613, gpuUtilRatio, Ratio, 100, 1, 25}),
	level(204, Percent, 100, "DCGM_FI_DEV_MEM_COPY_UTIL dcgm_mem_copy_utilization", "Memory utilisation (%).").
		also(Base{1614, "DCGM_FI_DEV_MEMORY_UTIL_RATIO", Ratio, 100, 1, 25}),
	level(XID, "", 65_535, "DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_XID_ERROR dcgm_xid_errors",
		"Last XID error since the collector's start.").onInstance(),
	memory(FBFree, "DCGM_FI_DEV_FB_FREE dcgm_fb_free", 1626, "DCGM_FI_DEV_FB_FREE_BYTES", "Free frame buffer (MiB)."),
	memory(FBUsed, "DCGM_FI_DEV_FB_USED dcgm_fb_used", 1627, "DCGM_FI_DEV_FB_USED_BYTES", "Used frame buffer (MiB)."),
	counter(310, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL dcgm_ecc_sbe_volatile_total",
		"Single-bit ECC errors since the driver was loaded."),
	counter(311, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL dcgm_ecc_dbe_volatile_total",
		"Double-bit ECC errors since the driver was loaded."),
	// A rate in MB/s, whatever # TYPE says: KiB/s over 1000; that of DCGM 4.7 is KiB/s
	// times 1024.
	level(449, "", 1e9, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL "+
		"dcgm_nvlink_bandwidth_total", "NVLink traffic of all links (MB/s).").
		also(Base{1648, "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "", 1, 1_024_000, 100}),
	level(112, "", maxCounter, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
		"Reasons why the clocks are held back (bit mask)."),
	counter(312, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "Single-bit ECC errors over the board's life."),
	counter(313, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "Double-bit ECC errors over the board's life."),
	counter(393, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
		"Rows remapped for uncorrectable errors."),
	counter(394, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
		"Rows remapped for correctable errors."),
	level(RowRemapFailure, "", 1, "DCGM_FI_DEV_ROW_REMAP_FAILURE DCGM_FI_DEV_ROW_REMAP_FAILED",
		"1 if a row could not be remapped."),
	memory(250, "DCGM_FI_DEV_FB_TOTAL", 1625, "DCGM_FI_DEV_FB_CAPACITY_BYTES", "Frame buffer (MiB)."),
	memory(253, "DCGM_FI_DEV_FB_RESERVED", 1628, "DCGM_FI_DEV_FB_RESERVED_BYTES", "Reserved frame buffer (MiB)."),
	share(GREngineActive,
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO dcgm_fi_prof_gr_engine_active",
		"Share of time in which the graphics or compute engine was active."),
	share(SMActive, "DCGM_FI_PROF_SM_ACTIVE DCGM_FI_PROF_SM_UTIL_RATIO dcgm_fi_prof_sm_active",
		"Share of time in which an SM had a warp, mean over SMs."),
	share(1003, "DCGM_FI_PROF_SM_OCCUPANCY DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
		"Share of warps that were resident, mean over SMs."),
	share(1004, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_TENSOR_UTIL_RATIO dcgm_fi_prof_pipe_tensor_active",
		"Share of cycles in which the tensor pipe was active."),
	share(1005, "DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_DRAM_UTIL_RATIO dcgm_fi_prof_dram_active",
		"Share of cycles in which device memory was active."),
	share(1006, "DCGM_FI_PROF_PIPE_FP64_ACTIVE DCGM_FI_PROF_FP64_UTIL_RATIO",
		"Share of cycles in which the FP64 pipe was active."),
	share(1007, "DCGM_FI_PROF_PIPE_FP32_ACTIVE DCGM_FI_PROF_FP32_UTIL_RATIO",
		"Share of cycles in which the FP32 pipe was active."),
	share(1008, "DCGM_FI_PROF_PIPE_FP16_ACTIVE DCGM_FI_PROF_FP16_UTIL_RATIO",
		"Share of cycles in which the FP16 pipe was active."),
	// Rates in B/s; the counter in 3.3.9's list of metrics is an error of that list.
	level(1009, "", 1e13, "DCGM_FI_PROF_PCIE_TX_BYTES dcgm_fi_prof_pcie_tx_bytes", "PCIe traffic sent (B/s)."),
	level(1010, "", 1e13, "DCGM_FI_PROF_PCIE_RX_BYTES dcgm_fi_prof_pcie_rx_bytes", "PCIe traffic received (B/s)."),
}

// level is a field of the board from 0 to most; names are divided by spaces.
func level(id uint32, unit Unit, most float64, names, help string) Field {
	return Field{ID: id, Names: strings.Fields(names), Unit: unit, Max: most, Help: help}
}

func counter(id uint32, names, help string) Field {
	f := level(id, "", maxCounter, names, help)
	f.Counter = true
	return f
}

// share is a profiling field: a ratio, measured per MIG instance.
func share(id uint32, names, help string) Field { return level(id, "", 1, names, help).onInstance() }

// memory is a field in MiB, measured per MIG instance, with its field in bytes.
func memory(id uint32, names string, base uint32, baseName, help string) Field {
	return level(id, MiB, 1<<24, names, help).onInstance().also(Base{base, baseName, Byte, 1, 1 << 20, 64})
}

func hertz(id uint32, name string) Base { return Base{id, name, Hertz, 1, 1e6, 100} }

func (f Field) atLeast(least float64) Field { f.Min = least; return f }
func (f Field) onInstance() Field           { f.Instance = true; return f }
func (f Field) also(base Base) Field        { f.Base = base; return f }

var (
	byName   = map[string]Series{}
	byID     = map[uint32]*Field{}
	withBase []*Field
)

func init() {
	for i := range fields {
		f := &fields[i]
		byID[f.ID] = f
		for _, name := range f.Names {
			byName[name] = Series{Name: name, field: f, classic: f.Base.ID != 0 && name != gpuUtilRatio}
		}
		if f.Base.ID == 0 {
			continue
		}
		withBase = append(withBase, f)
		if f.Base.Name != gpuUtilRatio {
			byName[f.Base.Name] = Series{Name: f.Base.Name, field: f, base: true}
		}
	}
}

// Reasons why a value is absent.
const (
	AbsentBlank = "blank" // a DCGM sentinel: not supported, not found, no permission
	AbsentNaN   = "nan"   // NaN or infinite
	AbsentRange = "range" // impossible for the field
	// AbsentUndecided is GPU_UTIL_RATIO's where nothing tells its unit.
	AbsentUndecided = "undecided_unit"
	AbsentHelp      = "help_unit" // HELP names another unit than the table, or an unknown one
	// AbsentContradiction is both names' of a quantity that say different things.
	AbsentContradiction = "contradiction"
)

// Check tells whether v is a value of f; otherwise why it is absent. Ratios are
// averages and may overshoot 1 by rounding: up to 1 % is taken as 1.
func (f *Field) Check(v float64) (value float64, absent string) {
	v, absent = finite(v)
	switch {
	case absent != "":
		return 0, absent
	case f.Max == 1 && f.Instance && v > 1 && v <= 1.01:
		return 1, ""
	case v < f.Min || v > f.Max:
		return 0, AbsentRange
	}
	return v, ""
}

func finite(v float64) (value float64, absent string) {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, AbsentNaN
	case IsBlank(v):
		return 0, AbsentBlank
	}
	return v, ""
}

// IsBlank recognises DCGM's blank values as text shows them: int64
// 0x7ffffffffffffff0 to …f3 (equal as float64), int32 0x7ffffff0 to …f3 widened,
// and float64 2^47 to 2^47+3 (dcgm_structs.h, DCGM_*_BLANK).
func IsBlank(v float64) bool {
	const int64Blank, int32Blank, doubleBlank = 9223372036854775792, 2147483632, 140737488355328
	return v >= int64Blank ||
		(v >= int32Blank && v <= int32Blank+3) ||
		(v >= doubleBlank && v <= doubleBlank+3)
}
