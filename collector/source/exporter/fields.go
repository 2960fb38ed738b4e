package exporter

import (
	"math"
	"strings"
)

// DCGM field ids (dcgm_fields.h) that are read.
const (
	fieldMIGMode      = 67
	fieldMIGMaxSlices = 69
	fieldGPUTemp      = 150
	fieldPowerWatts   = 155
	fieldEnergyMJ     = 156
	fieldGPUUtil      = 203
	fieldXID          = 230
	fieldFBFree       = 251
	fieldFBUsed       = 252
	fieldGREngine     = 1001
	fieldSMActive     = 1002
)

// field is one DCGM field: its names over the versions, and the range outside
// of which a value is impossible.
type field struct {
	id       uint32
	names    []string // classic, renamed in DCGM 4.6, dcgm-exporter 1.x
	min, max float64
	instance bool // measured per MIG instance; else the board's, repeated
}

const maxCounter = 1 << 53 // above it a text counter is not exact

var fields = []field{
	{id: fieldMIGMode, names: []string{"DCGM_FI_DEV_MIG_MODE"}, max: 1},
	{id: fieldMIGMaxSlices, names: []string{"DCGM_FI_DEV_MIG_MAX_SLICES"}, min: 1, max: 64},
	{id: 100, names: []string{"DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock"}, max: 10_000},
	{id: 101, names: []string{"DCGM_FI_DEV_MEM_CLOCK", "dcgm_memory_clock"}, max: 20_000},
	{id: 140, names: []string{"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp"}, max: 200},
	{id: fieldGPUTemp, names: []string{"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"}, max: 200},
	// Board power above the limit is real (600 W on 400 W parts); 0 W is not.
	{id: fieldPowerWatts, names: []string{"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"}, min: math.SmallestNonzeroFloat64, max: 5_000},
	{id: fieldEnergyMJ, names: []string{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption"}, max: maxCounter},
	{id: 202, names: []string{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "dcgm_pcie_replay_counter"}, max: maxCounter},
	// GPU_UTIL_RATIO keeps its 0 to 100, in spite of the name.
	{id: fieldGPUUtil, names: []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "dcgm_gpu_utilization"}, max: 100},
	{id: 204, names: []string{"DCGM_FI_DEV_MEM_COPY_UTIL", "dcgm_mem_copy_utilization"}, max: 100},
	{id: fieldXID, names: []string{"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"}, max: 65_535, instance: true},
	{id: fieldFBFree, names: []string{"DCGM_FI_DEV_FB_FREE", "dcgm_fb_free"}, max: 1 << 24, instance: true},
	{id: fieldFBUsed, names: []string{"DCGM_FI_DEV_FB_USED", "dcgm_fb_used"}, max: 1 << 24, instance: true},
	{id: 310, names: []string{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "dcgm_ecc_sbe_volatile_total"}, max: maxCounter},
	{id: 311, names: []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "dcgm_ecc_dbe_volatile_total"}, max: maxCounter},
	// A rate in MB/s, whatever # TYPE says.
	{id: 449, names: []string{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", "dcgm_nvlink_bandwidth_total"}, max: 1e9},
	{id: fieldGREngine, names: []string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "dcgm_fi_prof_gr_engine_active"}, max: 1, instance: true},
	{id: fieldSMActive, names: []string{"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO", "dcgm_fi_prof_sm_active"}, max: 1, instance: true},
	{id: 1004, names: []string{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", "dcgm_fi_prof_pipe_tensor_active"}, max: 1, instance: true},
	{id: 1005, names: []string{"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "dcgm_fi_prof_dram_active"}, max: 1, instance: true},
	// Rates in B/s; the counter in 3.3.9's list of metrics is an error of that list.
	{id: 1009, names: []string{"DCGM_FI_PROF_PCIE_TX_BYTES", "dcgm_fi_prof_pcie_tx_bytes"}, max: 1e13},
	{id: 1010, names: []string{"DCGM_FI_PROF_PCIE_RX_BYTES", "dcgm_fi_prof_pcie_rx_bytes"}, max: 1e13},
}

var fieldByName, fieldByID = indexFields()

func indexFields() (byName map[string]*field, byID map[uint32]*field) {
	byName, byID = make(map[string]*field), make(map[uint32]*field)
	for i := range fields {
		f := &fields[i]
		byID[f.id] = f
		for _, name := range f.names {
			byName[name] = f
		}
	}
	return byName, byID
}

// ownField says that a field has a place of its own in the batch, so that it
// isn't repeated among the metrics.
func ownField(id uint32) bool {
	switch id {
	case fieldMIGMode, fieldMIGMaxSlices, fieldPowerWatts, fieldEnergyMJ, fieldGPUUtil, fieldGREngine, fieldSMActive:
		return true
	}
	return false
}

// Reasons why a value is absent.
const (
	absentBlank   = "blank" // a DCGM sentinel: not supported, not found, no permission
	absentNaN     = "nan"   // NaN or infinite
	absentRange   = "range" // impossible for the field
	absentMIGUtil = "mig_gpu_util"
	absentNoGPU   = "no_gpu" // the row names no GPU
)

// check tells whether v is a value of f; otherwise why it is absent. Ratios are
// averages and may overshoot 1 by rounding: up to 1 % is taken as 1.
func (f *field) check(v float64) (value float64, absent string) {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, absentNaN
	case isBlank(v):
		return 0, absentBlank
	case f.max == 1 && f.instance && v > 1 && v <= 1.01:
		return 1, ""
	case v < f.min || v > f.max:
		return 0, absentRange
	}
	return v, ""
}

// isBlank recognises DCGM's blank values as text shows them: int64
// 0x7ffffffffffffff0 to …f3 (equal as float64), int32 0x7ffffff0 to …f3 widened,
// and float64 2^47 to 2^47+3 (dcgm_structs.h, DCGM_*_BLANK).
func isBlank(v float64) bool {
	const int64Blank, int32Blank, doubleBlank = 9223372036854775792, 2147483632, 140737488355328
	return v >= int64Blank ||
		(v >= int32Blank && v <= int32Blank+3) ||
		(v >= doubleBlank && v <= doubleBlank+3)
}

// instanceField says whether a value of the field on an instance's row is the
// instance's own and not the board's.
func instanceField(id uint32) bool { return fieldByID[id].instance }

// trueLabel reads a DCGM boolean that is exported as a label.
func trueLabel(s string) (on, known bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true", "enabled":
		return true, true
	case "0", "false", "disabled":
		return false, true
	}
	return false, false
}
