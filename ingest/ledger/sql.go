package ledger

import _ "embed"

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
//
//go:embed late_changes.sql
var selectLateChanges string

const selectClusters = `SELECT cluster, slot_ms FROM slot_lengths ORDER BY cluster`

// Of several epochs with one number the one in force comes first.
const selectEpochs = `SELECT epoch, rules, mapping, tenants, effective FROM epochs FINAL ORDER BY epoch, rules DESC, mapping`

// Batches of the slots in a range, winners and losers; those of one (node, slot) are
// consecutive.
//
//go:embed journal.sql
var selectJournal string

// Raw rows of the slots in a range, for one part of the GPUs.
//
//go:embed holds.sql
var selectHolds string

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
//
//go:embed published.sql
var selectPublished string

const selectLate = `SELECT count() AS batches FROM late_unprocessed FINAL WHERE cluster = {cluster:String}`

const selectRetirements = `SELECT gpu, at FROM retirements FINAL WHERE cluster = {cluster:String} ORDER BY gpu, at`

// Every GPU that was ever listed, with its last retirement.
//
//go:embed inventory.sql
var selectInventory string
