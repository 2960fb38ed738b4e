// Package exporter is a source that scrapes running dcgm-exporters of any
// version: text in, one batch of facts per node out.
//
// What an exposition can't be trusted with, and what is done about it:
//
//   - A value belongs to (UUID, GPU_I_ID, field). Rows of one key are repeated
//     per pod, per job and by faulty configurations; their maximum is taken,
//     never their sum.
//   - On a MIG GPU power, energy, temperatures, clocks and the like are the
//     GPU's, repeated on each instance: they count once per UUID. Activity on
//     a parent row beside instance rows is the GPU's metric, no leaf's. GPU_UTIL
//     means nothing on MIG and is ignored there.
//   - Names and units differ by generation (package field): mJ or J, percent or
//     ratio, MiB or bytes, MHz or Hz. DCGM_FI_DEV_GPU_UTIL_RATIO is percent in DCGM
//     4.6 and a ratio in 4.7: base-unit names in the same exposition say 4.7, else
//     classic ones 4.6, and where neither is there, the driver's new label stands
//     beside classic ones, or a value fits only the other, it is absent. So is a
//     series whose HELP text names another unit than the table, or an unknown one.
//     Where a quantity comes under both names the classic one counts; both are
//     absent where they differ by more than half and by more than rounding. An
//     unknown name that looks like a missing quantity's is counted and logged.
//   - One target speaks for one node (Target.Node), within limits of GPUs, bytes
//     and series; nothing that it answers stands in errors or logs, but names of
//     metrics. Redirects are not followed.
//   - Blanks, NaN, and values out of a field's range are absent, counted by
//     reason in gputally_exporter_values_absent_total.
//   - The energy counter counts only by its movement between two scrapes. One
//     that stands still is absent, and the span of the next movement starts
//     where the old value was first seen: exporters up to 3.3.9 serve cached
//     text for 30 s. A counter that went down was reset: what it shows moved
//     since.
//     It moves against itself alone: by node, UUID and the first target
//     that shows it, since clones may show the UUIDs of their original.
//   - XID (field 230) keeps the last code for ever, so only a change to another
//     code is an event. A fatal one flags the GPU, or the instance on whose row
//     it stands, until the UUID's energy counter resets (driver reload, GPU
//     reset, reboot).
//   - Counters, XIDs and flags outlive the collector in Deps.StateFile. The first
//     reading after a restart tells the energy since the last one with its whole
//     span, which R16 makes unattributed where it is over 1.5 slots. A file that
//     is missing, torn, or another cluster's or format's is none.
//   - No rows at all, an HTTP error, a body that is cut off: an outage. The
//     node has no batch and the error says why. But an exporter that restarts
//     may answer with fewer GPUs; with complete enumeration those are lost for
//     these slots (R2). Where that happens, configure enumeration: partial.
//
// MIG: a GPU has MIG on when a row has GPU_I_ID, or DCGM_FI_DEV_MIG_MODE (as a
// metric or a label) says so. A MIG GPU without instances has no such row, and
// most exporters do not export the mode. It is then inferred (infer_mig), all
// of this together: a MIG-capable model, GPU rows present, but neither
// GPU_UTIL nor FB_USED nor FB_FREE, which DCGM can't read on such a GPU and
// every default list of metrics contains; no owner; no sign of work; and no
// whole GPU behind the same exporter that lacks them too and is owned or at
// work, which would mean that they are not exported at all. Its slices are then
// all stranded. A site that exports none of these fields sets infer_mig: false.
//
// Slices come from DCGM_FI_DEV_MIG_MAX_SLICES if exported, else from the
// configured models, else from the table in internal/meter. Without a model
// name the profiles decide if all models that offer them agree ("1g.5gb" is on
// A100 only). The number in a profile's name is never used. A MIG GPU whose
// slices stay unknown is left out and named in the error, and the batch's
// enumeration becomes partial, so that its time is unobserved, not wrong.
//
// Owners are the labels of rows, as far as configured. After a Prometheus
// without honor_labels the plain labels are the exporter's own pod; so where
// any row has an exported_ form, the plain forms are ignored on all rows. A row
// of the parent of MIG instances can't say which instance is held and owns
// nothing.
package exporter
