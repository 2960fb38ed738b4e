package ledger

// For each hour of one cluster: the number of journal rows, how many of them are close
// enough to the hour before to be part of a gap there, the number of raw rows, and the
// watermark. Partitions (weeks) that are known already are left out; an hour lies in
// one partition.
const selectJournalHours = `
SELECT toStartOfHour(slot) AS hour, count() AS stored, countIf(slot < hour + {gap:UInt32}) AS head,
  sum(hold_rows) AS rows,
       max(toInt64(toUnixTimestamp(slot)) * 1000 + slot_ms) AS end_ms, any(_partition_id) AS partition
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND slot >= {from:DateTime('UTC')}
  AND _partition_id NOT IN {known:Array(String)}
GROUP BY hour ORDER BY hour`

// For each hour: the inputs of the ledger's weakest row, the number of its rows, and
// the number that were published. Known partitions (months) are left out.
const selectLedgerHours = `
SELECT hour, min(inputs) AS inputs, min(until_ms) AS until_ms, min(epoch) AS epoch, count() AS rows,
  max(hour_rows) AS published,
       any(_partition_id) AS partition
FROM usage_hourly FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')} AND _partition_id NOT IN {known:Array(String)}
GROUP BY hour ORDER BY hour`

// Batches that arrived for an hour after it had been closed: long enough after its
// end, and after the first batch for it.
const selectLateChanges = `
SELECT node, hour, collector, last
FROM
(
    SELECT node, toStartOfHour(slot) AS hour, collector, max(appended_at) AS last,
      min(min(appended_at)) OVER (PARTITION BY hour) AS known
    FROM batches FINAL
    WHERE cluster = {cluster:String} AND status = 'stored' AND slot >= {from:DateTime('UTC')}
      AND slot < {to:DateTime('UTC')}
    GROUP BY node, hour, collector
)
WHERE last > hour + 3600 + {after:UInt32} AND last > known + {after:UInt32}
ORDER BY hour, node, collector`

const selectClusters = `SELECT cluster, slot_ms FROM slot_lengths ORDER BY cluster`

// Of several epochs with one number the one in force comes first.
const selectEpochs = `SELECT epoch, rules, mapping, tenants, effective FROM epochs FINAL ORDER BY epoch, rules DESC, mapping`

// Batches of the slots in a range, winners and losers; those of one (node, slot) are
// consecutive.
const selectJournal = `
SELECT node, slot, collector, boot_ms, seq, rev, batch, hash, attribution_ok, enumeration_complete, observed_ms,
  observed, hold_rows
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored'
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
  AND (empty({nodes:Array(String)}) OR node IN {nodes:Array(String)})
ORDER BY node, slot`

// Raw rows of the slots in a range, for one part of the GPUs.
const selectHolds = `
SELECT node, gpu, slot, batch, model, slices, kind, leaf, owner, bucket, why, slice_ms, work, energy_mj,
  unattributed_mj, energy_why,
       head, tail
FROM holds FINAL
PREWHERE cityHash64(gpu) % {parts:UInt64} = {part:UInt64}
WHERE cluster = {cluster:String}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
  AND (empty({nodes:Array(String)}) OR node IN {nodes:Array(String)}) AND ({gpu:String} = '' OR gpu = {gpu:String})
SETTINGS do_not_merge_across_partitions_select_final = 1`

const selectSightings = `
SELECT hour, gpu, node, model, first_ms, last_ms, run_from_ms, slices_first, slices_last, kind_first, kind_last
FROM sightings FINAL
WHERE cluster = {cluster:String} AND cityHash64(gpu) % {parts:UInt64} = {part:UInt64}
  AND ({gpu:String} = '' OR gpu = {gpu:String})
  AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// Keys in the ledger for the hours of a range: those that a recomputation doesn't find
// any more are replaced by empty rows.
const selectLedgerKeys = `
SELECT hour, gpu FROM usage_hourly FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

const selectLeaves = `SELECT id, leaf, slices, profile, gi, ci, mig_uuid FROM leaves FINAL WHERE id IN {ids:Array(UInt64)}`

const selectOwners = `
SELECT id, owner, tenant, project, namespace, pod, uid, job, user, account FROM owners FINAL
WHERE id IN {ids:Array(UInt64)}`

// Weeks whose raw was or will be dropped.
const selectRawWeeks = `
SELECT week, state, sealed_at, dropped_at, gpu_hours, hold_rows, sample_rows,
  usage_sha256 FROM raw_weeks FINAL ORDER BY week`

const selectWeekRows = `
SELECT (SELECT count() FROM holds WHERE toMonday(slot) = toDate({week:String})) AS hold_rows,
       (SELECT count() FROM samples WHERE toMonday(slot) = toDate({week:String})) AS sample_rows`

const dropWeek = `DROP PARTITION {week:String}`

// The published rows of a range of hours, one line each.
const selectPublished = `
SELECT formatRowNoNewline('RowBinary', cluster, hour, gpu, node, model, slices, gpu_slices, unknown_capacity,
  present_ms, free, stranded,
       unhealthy, unobserved, unobserved_attribution, platform_energy_mj, unattributed_mj, leaf, profile,
         profile_slices, owner, tenant, project,
       user, workload, active, idle, unproven, inferred, work, energy_mj) AS line
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND present_ms > 0
ORDER BY cluster, hour, gpu`

const selectLate = `SELECT count() AS batches FROM late_unprocessed FINAL WHERE cluster = {cluster:String}`

const selectRetirements = `SELECT gpu, at FROM retirements FINAL WHERE cluster = {cluster:String} ORDER BY gpu, at`

// Every GPU that was ever listed, with its last retirement.
const selectBoards = `
SELECT seen.cluster AS cluster, seen.gpu AS gpu, node, model, slices, toUInt8(kind) AS kind, first_ms, last_ms,
  retired_at, who, reason
FROM
(
    SELECT cluster, toString(gpu) AS gpu, argMax(node, (s.last_ms, s.run_from_ms)) AS node,
      argMax(model, (s.last_ms, s.run_from_ms)) AS model,
           argMax(slices_last, (s.last_ms, s.run_from_ms)) AS slices,
             argMax(kind_last, (s.last_ms, s.run_from_ms)) AS kind,
           min(s.first_ms) AS first_ms, max(s.last_ms) AS last_ms
    FROM sightings AS s FINAL WHERE s.last_ms > 0 GROUP BY cluster, gpu
) AS seen
LEFT JOIN
(
    SELECT cluster, gpu, max(r.at) AS retired_at, argMax(who, r.at) AS who, argMax(reason, r.at) AS reason
    FROM retirements AS r FINAL GROUP BY cluster, gpu
) AS retired ON seen.cluster = retired.cluster AND seen.gpu = retired.gpu
ORDER BY cluster, gpu`
