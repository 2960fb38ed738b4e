// Package devices shows a node's devices to Prometheus under the names and
// labels that dcgm-exporter gives them, so that dashboards and alerts made for it
// go on working and no second exporter is needed.
//
// Data in: the batches of each slot, after attribution, and what the source knows
// of the node's stack. Data out: the last slot of each node as metrics: DCGM's
// fields, who has each device, and gputally_gpu_* for what a platform team asks
// (held, idle, healthy, lost).
//
// Invariants:
//   - A value is shown once per device and field, however many owners share the
//     device. The owner stands in labels only where there is one owner; where there
//     are several, shared="true" does.
//   - A field that instances show is not shown on their GPU's row again, and what
//     only the GPU measures stands on the GPU's row alone: a sum over all rows
//     of a field counts everything once.
//   - The GPU's row names an owner only where that owner holds all its slices.
//   - gputally_* counters and health metrics carry no owner: neither a total nor
//     the time an alert has to hold starts anew when the owner changes. DCGM's
//     fields carry it, counters as well, because dashboards expect that.
//   - A slot that ended more than MaxAgeSlots slots ago shows nothing but its time.
//   - The number of series is bounded by devices × fields; what ended is gone with
//     the next slot.
//   - Tenants and buckets are the ledger's: the same mapping (R15), the same rules
//     (R9, R12, R13) for the slot by itself.
//
// It differs from dcgm-exporter where that one's answer is wrong or can't be
// given: types follow the field and not a list; there is no
// DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, because a batch carries the counter's
// movement and not the counter (gputally_gpu_energy_joules_total counts from the
// collector's start); DCGM_FI_DEV_XID_ERRORS is there from the first XID on.
//
// What can go wrong: Prometheus gives its own names to pod, namespace and container
// (exported_pod) unless the scrape sets honor_labels; a source that lists a device
// twice is refused there, and here the second one is skipped, logged and counted.
package devices
