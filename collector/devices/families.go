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

// fieldFamily is a field's metric. A field that is read only by configuration has the name of the source and an
// unknown type; ok is false without a name.
func (d *Devices) fieldFamily(id uint32) (f family, ok bool) {
	known := field.ByID(id)
	switch {
	case known != nil && known.Help != "" && known.Counter:
		return family{known.Names[0], known.Help, prometheus.CounterValue}, true
	case known != nil && known.Help != "":
		return family{known.Names[0], known.Help, prometheus.GaugeValue}, true
	case d.deps.FieldName == nil:
		return otherField, false
	}
	name := d.deps.FieldName(id)
	if _, shown := field.ByName(name); shown || !extraName.MatchString(name) {
		return otherField, false
	}
	return family{name, "DCGM field that is read by configuration, in its own unit.", prometheus.UntypedValue}, true
}

// extraName matches names of DCGM's fields only.
var extraName = regexp.MustCompile(`^DCGM_FI_[A-Z0-9_]+$`)

// descs are created once per family and set of label names.
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
