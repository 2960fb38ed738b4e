package explain

// All GPUs that the ledger has rows of, and those whose id begins as asked for.
const selectGPUs = `
SELECT DISTINCT gpu FROM usage_hourly FINAL
WHERE present_ms > 0 AND ({cluster:String} = '' OR cluster = {cluster:String}) ORDER BY gpu`

// The hours of one GPU nearest to another one, and the whole range.
const selectNearest = `
SELECT cluster, hour FROM usage_hourly FINAL
WHERE gpu = {gpu:String} AND present_ms > 0 AND ({cluster:String} = '' OR cluster = {cluster:String})
ORDER BY abs(toInt64(toUnixTimestamp(hour)) - {at:Int64}), hour LIMIT 4`

const selectHourRange = `
SELECT min(hour) AS first, max(hour) AS last, count() AS hours FROM usage_hourly FINAL
WHERE gpu = {gpu:String} AND present_ms > 0 AND ({cluster:String} = '' OR cluster = {cluster:String})`

const selectRow = `
SELECT cluster, hour, gpu, node, model, slices, gpu_slices, present_ms, until_ms, epoch, inputs, free, stranded, unhealthy, unobserved,
       unobserved_attribution, platform_energy_mj, unattributed_mj, leaf, profile, profile_slices, owner, tenant, project,
       user, workload, active, idle, unproven, inferred, work, energy_mj
FROM usage_hourly FINAL
WHERE gpu = {gpu:String} AND hour = {hour:DateTime('UTC')} AND present_ms > 0
  AND ({cluster:String} = '' OR cluster = {cluster:String})
ORDER BY cluster`

const selectSlotMS = `
SELECT argMin(c.slot_ms, (c.since, c.slot_ms)) AS slot_ms FROM clusters AS c WHERE cluster = {cluster:String}`

const selectEpoch = `SELECT tenants FROM epochs FINAL WHERE epoch = {epoch:UInt32} ORDER BY rules DESC, mapping LIMIT 1`

const selectSightings = `
SELECT hour, gpu, node, model, first_ms, last_ms, run_from_ms, slices_first, slices_last, kind_first, kind_last
FROM sightings FINAL
WHERE cluster = {cluster:String} AND hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND gpu = {gpu:String}
ORDER BY hour, node`

const selectFirstSeen = `
SELECT toInt64(min(s.first_ms)) AS earliest_ms, count() AS seen FROM sightings AS s FINAL
WHERE cluster = {cluster:String} AND gpu = {gpu:String} AND s.first_ms > 0`

// When people took the GPU out of the inventory (R2).
const selectRetirements = `
SELECT at, who, reason FROM retirements FINAL WHERE cluster = {cluster:String} AND gpu = {gpu:String} ORDER BY at`

// Retirements are inputs of the hours after them, as journal rows are.
const selectClosings = `
SELECT count() AS closings FROM retirements FINAL
WHERE cluster = {cluster:String} AND at >= {from:DateTime('UTC')} AND at < {to:DateTime('UTC')}`

// Nodes that list the GPU in a range of slots.
const selectNodes = `
SELECT DISTINCT node FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND has(gpus, {gpu:String})
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
ORDER BY node`

// How many journal rows the hour depends on now, and how many lie in it.
const selectInputs = `
SELECT count() AS inputs, countIf(slot >= {hour:DateTime('UTC')} AND slot < {end:DateTime('UTC')}) AS inside
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}`

const selectBatches = `
SELECT topic, partition, offset, node, slot, rev, collector, boot_ms, seq, hash, batch, attribution_ok, enumeration_complete,
       observed_ms, observed, hold_rows, CAST(origin, 'String') AS origin_name
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored' AND node IN {nodes:Array(String)}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
ORDER BY slot, node, topic, partition, offset`

// How many rows raw has of each batch (R3).
const selectFound = `
SELECT batch, toUInt32(count()) AS found FROM holds FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
GROUP BY batch`

const selectHolds = `
SELECT node, slot, batch, model, slices, kind, leaf, owner, CAST(bucket, 'Int8') AS bucket_number, why, slice_ms, work, energy_mj,
       unattributed_mj, head, tail
FROM holds FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)} AND gpu = {gpu:String}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}
ORDER BY slot, node, leaf, owner, bucket_number, why, head
SETTINGS do_not_merge_across_partitions_select_final = 1`

const selectSamples = `
SELECT node, slot, device, rev, present, sm_active, gr_engine_active, gpu_util, power_dw, energy_j
FROM samples FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)} AND gpu = {gpu:String}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')}`

const selectEvents = `
SELECT node, gpu, leaf, at, kind, code, detail, batch FROM events FINAL
WHERE cluster = {cluster:String} AND node IN {nodes:Array(String)} AND gpu IN ('', {gpu:String})
  AND at >= {from:DateTime('UTC')} AND at < {to:DateTime('UTC')}
ORDER BY at, node, leaf, kind, code`

const selectLeaves = `SELECT id, leaf, slices, profile, gi, ci, mig_uuid FROM leaves FINAL WHERE id IN {ids:Array(UInt64)}`

const selectOwners = `
SELECT id, owner, tenant, project, namespace, pod, uid, job, user, account FROM owners FINAL
WHERE id IN {ids:Array(UInt64)}`
