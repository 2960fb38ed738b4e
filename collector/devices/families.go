package devices

import (
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source/field"
)

// family is a metric's name, help and type.
type family struct {
	name, help string
	kind       prometheus.ValueType
}

func gauge(name, help string) family { return family{"gputally_" + name, help, prometheus.GaugeValue} }

var (
	lastSlot = gauge("device_last_slot_timestamp_seconds",
		"Start of a node's last slot. Its devices are shown for some slots (max_age_slots) after its end.")
	attributionOK = gauge("attribution_ok", "1 if the owners of a node's devices were known in the last slot.")

	gpuInfo   = gauge("gpu_info", "1, with a GPU's versions and numbers as labels.")
	gpuSlices = gauge("gpu_slices", "Compute slices of a GPU.")
	gpuLost   = gauge("gpu_lost",
		"1 if a GPU doesn't answer any more, or is missing where its node lists all of its own.")
	gpuUnhealthy = gauge("gpu_unhealthy", "1 if a GPU is flagged: a fatal XID or a failed row remap, until it is reset.")
	gpuBucket    = gauge("gpu_slot_bucket_ratio",
		"Share of a GPU's slices and time in the last slot by bucket, as the ledger settles the slot by itself; the "+
			"buckets sum to 1.")
	gpuEnergy = family{
		"gputally_gpu_energy_joules_total",
		"Energy of a GPU since the collector's start, by the movement of its counter.", prometheus.CounterValue,
	}

	leafSlices = gauge("gpu_leaf_slices",
		"Compute slices of a device that one workload can be given: an instance, or a whole GPU.")
	leafUnhealthy = gauge("gpu_leaf_unhealthy", "1 if an instance is flagged by itself.")
	leafHolders   = gauge("gpu_leaf_holders", "Owners that hold a device at the end of the last slot.")
	leafHeld      = gauge("gpu_leaf_held_ratio",
		"Part of a device that is held at the end of the last slot; less than 1 where replicas are free.")
	leafActive = gauge("gpu_leaf_active_ratio",
		"Share of a device's time in the last slot that was held with evidence of work.")
	leafIdle = gauge("gpu_leaf_idle_ratio",
		"Share of a device's time in the last slot that was held with evidence of no work.")

	otherField = gauge("gpu_dcgm_field_value",
		"Value of a DCGM field that has no name here, by field id, in the field's own unit.")
)

// fieldHelp is what a DCGM field is, after dcgm_fields.h and with its unit.
var fieldHelp = map[uint32]string{
	field.MIGMode:         "MIG mode (1: on).",
	100:                   "SM clock (MHz).",
	101:                   "Memory clock (MHz).",
	112:                   "Reasons why the clocks are held back (bit mask).",
	140:                   "Memory temperature (degrees C).",
	field.GPUTemp:         "GPU temperature (degrees C).",
	field.PowerWatts:      "Mean power of the board in the slot (W).",
	202:                   "PCIe replays.",
	field.GPUUtil:         "GPU utilisation (%).",
	204:                   "Memory utilisation (%).",
	field.XID:             "Last XID error since the collector's start.",
	250:                   "Frame buffer (MiB).",
	field.FBFree:          "Free frame buffer (MiB).",
	field.FBUsed:          "Used frame buffer (MiB).",
	253:                   "Reserved frame buffer (MiB).",
	310:                   "Single-bit ECC errors since the driver was loaded.",
	311:                   "Double-bit ECC errors since the driver was loaded.",
	312:                   "Single-bit ECC errors over the board's life.",
	313:                   "Double-bit ECC errors over the board's life.",
	393:                   "Rows remapped for uncorrectable errors.",
	394:                   "Rows remapped for correctable errors.",
	field.RowRemapFailure: "1 if a row could not be remapped.",
	449:                   "NVLink traffic of all links (MB/s).",
	field.GREngineActive:  "Share of time in which the graphics or compute engine was active.",
	field.SMActive:        "Share of time in which an SM had a warp, mean over SMs.",
	1003:                  "Share of warps that were resident, mean over SMs.",
	1004:                  "Share of cycles in which the tensor pipe was active.",
	1005:                  "Share of cycles in which device memory was active.",
	1006:                  "Share of cycles in which the FP64 pipe was active.",
	1007:                  "Share of cycles in which the FP32 pipe was active.",
	1008:                  "Share of cycles in which the FP16 pipe was active.",
	1009:                  "PCIe traffic sent (B/s).",
	1010:                  "PCIe traffic received (B/s).",
}

// fieldCounter are the fields that only grow, until a reset. The types that
// dcgm-exporter shows come from a list that says counter for rates as well.
var fieldCounter = map[uint32]bool{202: true, 310: true, 311: true, 312: true, 313: true, 393: true, 394: true}

// fieldFamily is a field's metric. One that isn't read by default goes by the name
// that a source knows for it, and nobody knows whether it is a counter; ok is false
// where it has no name.
func (d *Devices) fieldFamily(id uint32) (f family, ok bool) {
	known, help := field.ByID(id), fieldHelp[id]
	switch {
	case known != nil && help != "" && fieldCounter[id]:
		return family{known.Names[0], help, prometheus.CounterValue}, true
	case known != nil && help != "":
		return family{known.Names[0], help, prometheus.GaugeValue}, true
	case d.deps.FieldName == nil:
		return otherField, false
	}
	name := d.deps.FieldName(id)
	if _, shown := field.ByName(name); shown || !extraName.MatchString(name) {
		return otherField, false
	}
	return family{name, "DCGM field that is read by configuration, in its own unit.", prometheus.UntypedValue}, true
}

// extraName is what names of DCGM's fields look like; no other metric does.
var extraName = regexp.MustCompile(`^DCGM_FI_[A-Z0-9_]+$`)

// descs are made once per family and set of label names.
type descs map[string]*prometheus.Desc

func (d descs) of(f family, names []string) *prometheus.Desc {
	key := f.name + "\xff" + strings.Join(names, "\xff")
	desc := d[key]
	if desc == nil {
		desc = prometheus.NewDesc(f.name, f.help, names, nil)
		d[key] = desc
	}
	return desc
}
