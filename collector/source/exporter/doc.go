// Package exporter is a source that scrapes dcgm-exporters of any version: expositions in, one batch of facts per
// node out.
//
// How ambiguous or wrong data in expositions is handled:
//
//   - A value belongs to (UUID, GPU_I_ID, field). Rows with one key are repeated per pod, per job and by faulty
//     configurations; their maximum is used, never their sum.
//   - On a MIG GPU power, energy, temperatures, clocks and the like are the GPU's, repeated on each instance: they
//     count once per UUID. Activity on a parent row beside instance rows is the GPU's metric, not a leaf's. GPU_UTIL
//     has no meaning on MIG and is ignored there.
//   - Names and units differ by generation (package field): mJ or J, percent or ratio, MiB or bytes, MHz or Hz.
//     DCGM_FI_DEV_GPU_UTIL_RATIO is percent in DCGM 4.6 and a ratio in 4.7. Base-unit names in the same exposition
//     indicate 4.7, else classic ones 4.6. The value is absent if neither are present, if the new driver label occurs
//     with classic names, or if the value fits only the other unit. A series whose HELP text has another unit than
//     the table, or an unknown one, is absent, too. If a quantity is reported under both names the classic one
//     counts; both are absent if they differ by more than half and by more than rounding. An unknown name that looks
//     like a missing quantity's is counted and logged.
//   - One target reports about one node (Target.Node), within limits of GPUs, bytes and series. Of its answers only
//     the names of metrics may appear in errors or logs. Redirects are not followed.
//   - Blanks, NaN, and values out of a field's range are absent, counted by reason in
//     gputally_exporter_values_absent_total.
//   - The energy counter is used only by its increase between two scrapes. An unchanged counter is absent, and the
//     span of the next increase starts where the old value was first seen: exporters up to 3.3.9 serve cached text
//     for 30 s. A counter that decreased was reset: its value is the increase since then. It is compared only with
//     its own earlier values: by node, UUID and the first target that reports it, since cloned machines may report
//     the UUIDs of their original.
//   - XID (field 230) keeps the last code for ever, so only a change to another code is an event. A fatal one marks
//     the GPU, or the instance of its row, as unhealthy until the UUID's energy counter is reset (driver reload, GPU
//     reset, reboot).
//   - Counters, XIDs and flags survive a restart of the collector in Deps.StateFile. The first reading after a
//     restart has the energy since the last one with its whole span, which is unattributed if it is over 1.5 slots
//     (R16). A file that is missing, incomplete, or of another cluster or format is ignored.
//   - No GPU rows, an HTTP error or a truncated body are an outage: the node has no batch and the error has the
//     reason. But an exporter that restarts may answer with fewer GPUs; with complete enumeration those are lost for
//     these slots (R2). If that happens, configure enumeration: partial.
//
// MIG: a GPU has MIG enabled if a row has GPU_I_ID, or DCGM_FI_DEV_MIG_MODE (as a metric or a label) says so. A MIG
// GPU without instances has no such row, and most exporters do not export the mode. It is then inferred (infer_mig)
// if all of this holds: a MIG-capable model; GPU rows are present, but neither GPU_UTIL nor FB_USED nor FB_FREE,
// which DCGM can't read on such a GPU and every default list of metrics contains; no owner; no sign of work; and no
// whole GPU of the same exporter that lacks them too and is owned or active, which would mean that they are not
// exported at all. Its slices are then all stranded. If your exporters export none of these fields, set infer_mig:
// false.
//
// Slices come from DCGM_FI_DEV_MIG_MAX_SLICES if exported, else from the configured models, else from the table in
// internal/meter. Without a model name the profiles decide if all models with these profiles agree ("1g.5gb" exists
// on A100 only). The number in a profile's name is never used. A MIG GPU whose slices remain unknown is left out and
// named in the error, and the batch's enumeration becomes partial, so that its time is unobserved, not wrong.
//
// Owners are the labels of rows, as configured. After a Prometheus without honor_labels the plain labels are the
// exporter's own pod; so if any row has an exported_ form, the plain forms are ignored on all rows. The parent row of
// MIG instances doesn't identify the held instance and has no owner.
package exporter
