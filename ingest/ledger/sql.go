package ledger

// Journal rows per hour of one cluster, how many of them lie within the gap's
// reach of the hour before, and the watermark.
const selectJournalHours = `
SELECT toStartOfHour(slot) AS hour, count() AS stored, countIf(slot < hour + {gap:UInt32}) AS head,
       max(toInt64(toUnixTimestamp(slot)) * 1000 + slot_ms) AS end_ms
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND slot >= {from:DateTime('UTC')}
GROUP BY hour ORDER BY hour`

// What the ledger holds of each hour, by its weakest row.
const selectLedgerHours = `
SELECT hour, min(inputs) AS inputs, min(until_ms) AS until_ms, min(epoch) AS epoch
FROM usage_hourly FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')}
GROUP BY hour ORDER BY hour`

const selectClusters = `SELECT cluster, argMin(c.slot_ms, (c.since, c.slot_ms)) AS slot_ms FROM clusters AS c GROUP BY cluster ORDER BY cluster`

const selectEpochs = `SELECT epoch, rules, mapping, tenants, effective FROM epochs FINAL ORDER BY epoch`

// Batches of the slots in a range, winners and losers.
const selectJournal = `
SELECT node, slot, slot_ms, rev, collector, boot_ms, seq, hash, batch, attribution_ok, enumeration_complete,
       observed_ms, observed, hold_rows
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored'
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
ORDER BY slot, node`

// Raw rows of the slots in a range.
const selectHolds = `
SELECT node, gpu, slot, batch, model, slices, leaf, owner, CAST(bucket, 'Int8') AS bucket, why, slice_ms, work,
       energy_mj, unattributed_mj, head, tail
FROM holds FINAL
WHERE cluster = {cluster:String}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
SETTINGS do_not_merge_across_partitions_select_final = 1`

const selectSightings = `
SELECT hour, gpu, node, model, first_ms, last_ms, run_from_ms, slices_first, slices_last
FROM sightings FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

// Keys that stand in the ledger for the hours of a range: what a recomputation
// no longer finds is replaced by an empty row.
const selectLedgerKeys = `
SELECT hour, gpu FROM usage_hourly FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}`

const selectLeaves = `SELECT id, leaf, slices, profile FROM leaves FINAL WHERE id IN {ids:Array(UInt64)}`

const selectOwners = `
SELECT id, owner, tenant, project, namespace, pod, uid, job, user, account FROM owners FINAL
WHERE id IN {ids:Array(UInt64)}`
