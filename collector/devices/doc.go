// Package devices exposes a node's devices to Prometheus under the names and labels of dcgm-exporter, so that its
// dashboards and alerts continue to work and no second exporter is needed.
//
// Data in: the batches of each slot, after attribution, and the source's Info about the node. Data out: the last slot
// of each node as metrics: DCGM's fields, the owner of each device, and gputally_gpu_* for platform teams (held,
// idle, healthy, lost).
//
// Invariants:
//   - A value is exposed once per device and field, however many owners share the device. Labels contain the owner
//     only if there is just one; otherwise they contain shared="true".
//   - A field that instances have is not repeated on their GPU's row, and a field that only the GPU has is on the
//     GPU's row only: a sum over all rows of a field counts everything once.
//   - The GPU's row has an owner only if that owner holds all its slices.
//   - gputally_* counters and health metrics have no owner labels, so that neither a total nor an alert's `for`
//     starts again when the owner changes. DCGM's fields have them, including counters, because dashboards expect
//     that.
//   - A slot that ended more than MaxAgeSlots slots ago exposes only its time.
//   - The number of series is bounded by devices × fields; series of ended devices disappear with the next slot.
//   - Tenants and buckets are those of the ledger: the same mapping (R15), and the same rules (R9, R12, R13) applied
//     to the slot alone.
//
// It differs from dcgm-exporter where that is wrong or can't be imitated: types follow the field, not a list; there
// is no DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, because a batch has the counter's increase, not the counter
// (gputally_gpu_energy_joules_total counts from the collector's start); DCGM_FI_DEV_XID_ERRORS exists from the first
// XID on.
//
// Errors: Prometheus renames pod, namespace and container (to exported_pod) unless the scrape sets honor_labels; if a
// source lists a device twice, the second one is skipped, logged and counted, since Prometheus would refuse the
// scrape.
package devices
