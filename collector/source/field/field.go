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
	Base     Base
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
	// id, names, unit, least, greatest, instance, base
	{MIGMode, named("DCGM_FI_DEV_MIG_MODE"), "", 0, 1, false, Base{}},
	{MIGMaxSlices, named("DCGM_FI_DEV_MIG_MAX_SLICES"), "", 1, 64, false, Base{}},
	{100, named("DCGM_FI_DEV_SM_CLOCK dcgm_sm_clock"), MHz, 0, 10_000, false, hertz(1603, "DCGM_FI_DEV_SM_CLOCK_HERTZ")},
	{
		101, named("DCGM_FI_DEV_MEM_CLOCK dcgm_memory_clock"),
		MHz, 0, 20_000, false, hertz(1604, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ"),
	},
	{
		140, named("DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_MEMORY_TEMP_CELSIUS dcgm_memory_temp"),
		Celsius, 0, 200, false,
		Base{},
	},
	{GPUTemp, named("DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_TEMP_CELSIUS dcgm_gpu_temp"), Celsius, 0, 200, false, Base{}},
	// Board power above the limit is real (600 W on 400 W parts); 0 W is not.
	{
		PowerWatts, named("DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_BOARD_POWER_WATTS dcgm_power_usage"),
		Watt, math.SmallestNonzeroFloat64, 5_000, false,
		Base{},
	},
	{
		EnergyMJ, named("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION dcgm_total_energy_consumption"),
		Millijoule, 0, maxCounter, false,
		Base{1611, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", Joule, 1000, 1, 100_000},
	},
	{
		202, named("DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_PCIE_REPLAY_TOTAL dcgm_pcie_replay_counter"),
		"", 0, maxCounter, false,
		Base{},
	},
	// GPU_UTIL_RATIO is 0 to 100 in DCGM 4.6, in spite of the name: see Generation.
	{
		GPUUtil,
		[]string{"DCGM_FI_DEV_GPU_UTIL", gpuUtilRatio, "dcgm_gpu_utilization"},
		Percent, 0, 100, false,
		Base{1613, gpuUtilRatio, Ratio, 100, 1, 25},
	},
	{
		204, named("DCGM_FI_DEV_MEM_COPY_UTIL dcgm_mem_copy_utilization"),
		Percent, 0, 100, false,
		Base{1614, "DCGM_FI_DEV_MEMORY_UTIL_RATIO", Ratio, 100, 1, 25},
	},
	{XID, named("DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_XID_ERROR dcgm_xid_errors"), "", 0, 65_535, true, Base{}},
	{FBFree, named("DCGM_FI_DEV_FB_FREE dcgm_fb_free"), MiB, 0, 1 << 24, true, bytes(1626, "DCGM_FI_DEV_FB_FREE_BYTES")},
	{FBUsed, named("DCGM_FI_DEV_FB_USED dcgm_fb_used"), MiB, 0, 1 << 24, true, bytes(1627, "DCGM_FI_DEV_FB_USED_BYTES")},
	{310, named("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL dcgm_ecc_sbe_volatile_total"), "", 0, maxCounter, false, Base{}},
	{311, named("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL dcgm_ecc_dbe_volatile_total"), "", 0, maxCounter, false, Base{}},
	// A rate in MB/s, whatever # TYPE says: KiB/s over 1000; that of DCGM 4.7 is KiB/s
	// times 1024.
	{
		449, named("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL dcgm_nvlink_bandwidth_total"),
		"", 0, 1e9, false,
		Base{1648, "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "", 1, 1_024_000, 100},
	},
	{112, named("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS DCGM_FI_DEV_CLOCKS_EVENT_REASONS"), "", 0, maxCounter, false, Base{}},
	{312, named("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"), "", 0, maxCounter, false, Base{}},
	{313, named("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"), "", 0, maxCounter, false, Base{}},
	{
		393, named("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
		"", 0, maxCounter, false,
		Base{},
	},
	{
		394, named("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
		"", 0, maxCounter, false,
		Base{},
	},
	{RowRemapFailure, named("DCGM_FI_DEV_ROW_REMAP_FAILURE DCGM_FI_DEV_ROW_REMAP_FAILED"), "", 0, 1, false, Base{}},
	{250, named("DCGM_FI_DEV_FB_TOTAL"), MiB, 0, 1 << 24, true, bytes(1625, "DCGM_FI_DEV_FB_CAPACITY_BYTES")},
	{253, named("DCGM_FI_DEV_FB_RESERVED"), MiB, 0, 1 << 24, true, bytes(1628, "DCGM_FI_DEV_FB_RESERVED_BYTES")},
	{
		GREngineActive,
		named("DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO dcgm_fi_prof_gr_engine_active"),
		"", 0, 1, true,
		Base{},
	},
	{SMActive, named("DCGM_FI_PROF_SM_ACTIVE DCGM_FI_PROF_SM_UTIL_RATIO dcgm_fi_prof_sm_active"), "", 0, 1, true, Base{}},
	{1003, named("DCGM_FI_PROF_SM_OCCUPANCY DCGM_FI_PROF_SM_OCCUPANCY_RATIO"), "", 0, 1, true, Base{}},
	{
		1004, named("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_TENSOR_UTIL_RATIO dcgm_fi_prof_pipe_tensor_active"),
		"", 0, 1, true,
		Base{},
	},
	{
		1005, named("DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_DRAM_UTIL_RATIO dcgm_fi_prof_dram_active"),
		"", 0, 1, true,
		Base{},
	},
	{1006, named("DCGM_FI_PROF_PIPE_FP64_ACTIVE DCGM_FI_PROF_FP64_UTIL_RATIO"), "", 0, 1, true, Base{}},
	{1007, named("DCGM_FI_PROF_PIPE_FP32_ACTIVE DCGM_FI_PROF_FP32_UTIL_RATIO"), "", 0, 1, true, Base{}},
	{1008, named("DCGM_FI_PROF_PIPE_FP16_ACTIVE DCGM_FI_PROF_FP16_UTIL_RATIO"), "", 0, 1, true, Base{}},
	// Rates in B/s; the counter in 3.3.9's list of metrics is an error of that list.
	{1009, named("DCGM_FI_PROF_PCIE_TX_BYTES dcgm_fi_prof_pcie_tx_bytes"), "", 0, 1e13, false, Base{}},
	{1010, named("DCGM_FI_PROF_PCIE_RX_BYTES dcgm_fi_prof_pcie_rx_bytes"), "", 0, 1e13, false, Base{}},
}

// named are the names of a field, the one that is shown first.
func named(names string) []string { return strings.Fields(names) }

func hertz(id uint32, name string) Base { return Base{id, name, Hertz, 1, 1e6, 100} }

func bytes(id uint32, name string) Base { return Base{id, name, Byte, 1, 1 << 20, 64} }

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
