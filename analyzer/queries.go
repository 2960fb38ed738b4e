package analyzer

// Sums of slice-ms reach at most 5e14 an hour, which is 139,000 GPUs in thousandths,
// so that calculations fit 64 bits.

// heldHoursSQL returns the hours of all GPUs that anybody held, by GPU and hour.
// Parameters: from, to.
const heldHoursSQL = `
SELECT cluster, gpu, hour, node, model, gpu_slices, until_ms, leaf, profile, profile_slices, tenant, project, user, workload, active, idle,
  parked, rest_owner, rest_from, rest_ms, rest_slice_ms, rest_grade, rest_released
FROM usage_hourly FINAL
WHERE hour >= ? AND hour < ? AND notEmpty(owner)
ORDER BY cluster, gpu, hour`

// heldHoursOfGPUsSQL returns the same for some GPUs. Parameters: from, to, GPUs.
const heldHoursOfGPUsSQL = `
SELECT cluster, gpu, hour, node, model, gpu_slices, until_ms, leaf, profile, profile_slices, tenant, project, user, workload, active, idle,
  parked, rest_owner, rest_from, rest_ms, rest_slice_ms, rest_grade, rest_released
FROM usage_hourly FINAL
WHERE hour >= ? AND hour < ? AND notEmpty(owner) AND gpu IN ?
ORDER BY cluster, gpu, hour`

// workloadHoursSQL returns the active and held time of every workload by hour and model.
// Parameters: from, to.
const workloadHoursSQL = `
SELECT cluster, tenant, project, user, workload, hour, model, profile, gpu_slices, profile_slices,
  if(sum(toFloat64(active_slice_ms)) < 5e14, sum(active_slice_ms), 500000000000000),
  if(sum(toFloat64(active_slice_ms) + idle_slice_ms + unproven_slice_ms) < 5e14,
    sum(active_slice_ms + idle_slice_ms + unproven_slice_ms), 500000000000000)
FROM usage
WHERE kind = 'owner' AND hour >= ? AND hour < ?
GROUP BY cluster, tenant, project, user, workload, hour, model, profile, gpu_slices, profile_slices
ORDER BY hour, cluster, tenant, project, user, workload, model, profile, gpu_slices, profile_slices`

// versionsSQL returns a sum over the versions of the held GPU-hours, which differs when one was written anew.
// Parameters: from, to.
const versionsSQL = `
SELECT sum(cityHash64(cluster, gpu, hour, version)) FROM usage_hourly FINAL WHERE hour >= ? AND hour < ? AND notEmpty(owner)`

// idleHoursSQL returns idle time by tenant, hour and price. Parameters: from, to.
const idleHoursSQL = `
SELECT tenant, hour, model, profile, gpu_slices, profile_slices, sum(idle_slice_ms)
FROM usage
WHERE kind = 'owner' AND hour >= ? AND hour < ? AND idle_slice_ms > 0
GROUP BY tenant, hour, model, profile, gpu_slices, profile_slices`

// sightSQL returns each cluster's capacity and its unobserved part, in GPU-hours.
// Parameters: from, to.
const sightSQL = `
SELECT cluster,
    sum(toUInt64(slices) * present_ms / (greatest(gpu_slices, 1) * 3600000.)),
    sum((unobserved - unobserved_attribution) / (greatest(gpu_slices, 1) * 3600000.)),
    sum(unobserved_attribution / (greatest(gpu_slices, 1) * 3600000.))
FROM usage_hourly FINAL
WHERE hour >= ? AND hour < ?
GROUP BY cluster
ORDER BY cluster`

// newestHoursSQL returns each cluster's newest hour up to an instant. Imported records
// may lie in the future, and would hide current episodes. Parameter: the instant.
const newestHoursSQL = `SELECT cluster, max(hour) FROM usage_hourly FINAL WHERE hour <= ? AND present_ms > 0 GROUP BY cluster`

// idleAtSQL returns the GPUs with idle time from the start of an hour on. Parameter: the hour.
const idleAtSQL = `
SELECT DISTINCT toString(gpu) FROM usage_hourly FINAL
WHERE hour = ? AND arrayExists((at, grade) -> at = 0 AND grade > 1, rest_from, rest_grade)
ORDER BY 1`

// publishedSQL returns the published episodes that overlap a range, with their
// versions. Parameters: to, from.
const publishedSQL = `
SELECT id, kind, cluster, tenant, project, workload, node, gpu, leaf, start, end,
    toString(wasted_gpu_hours) AS wasted_gpu_hours, toString(wasted_cost) AS wasted_cost, currency, evidence, user, cause,
    grade, open, gpus, leaves, severity, alerted, parent, observed, expected, score, facts, version
FROM anomalies FINAL
WHERE deleted = 0 AND start < ? AND end > ?
ORDER BY start, id`

// alertedSQL returns the published findings that were let through from an instant on. Parameter: the instant.
const alertedSQL = `
SELECT id, alerted, toString(kind), toString(grade), toString(tenant), toString(severity) FROM anomalies FINAL
WHERE deleted = 0 AND alerted > toDateTime(0, 'UTC') AND alerted >= ?
ORDER BY alerted, id`

// newestVersionSQL returns the highest version of all rows, 0 if there are none.
// Deleted rows count: an episode that comes back must outrank its own deletion.
const newestVersionSQL = `SELECT max(version) FROM anomalies`

// seenHoursSQL returns the hours of each cluster, whether at least half of them was observed,
// and whether they are over. Parameters: from, to.
const seenHoursSQL = `
SELECT cluster, hour, sum(toUInt128(unobserved)) * 2 <= sum(toUInt128(slices) * present_ms), max(until_ms) >= 3600000
FROM usage_hourly FINAL
WHERE hour >= ? AND hour < ? AND present_ms > 0
GROUP BY cluster, hour
ORDER BY hour, cluster`

// tenantHoursSQL returns the GPU-hours of every tenant, or of one, by cluster and model: the
// numbers of the hours after the first, and the amounts. Small blocks, because the reader
// computes between them. Parameters: from, from, to, twice the tenant (empty: all).
const tenantHoursSQL = `
SELECT t, cluster, model, groupArray(at), groupArray(held) FROM
(
    SELECT t, cluster, model, toUInt16((toUInt32(hour) - toUInt32(?)) / 3600) AS at,
        sum((a + i + u) / (greatest(gpu_slices, 1) * 3600000.)) AS held
    FROM usage_hourly FINAL
    ARRAY JOIN tenant AS t, active AS a, idle AS i, unproven AS u
    WHERE hour >= ? AND hour < ? AND (empty(?) OR t = ?)
    GROUP BY t, cluster, model, hour
)
GROUP BY t, cluster, model
ORDER BY t, cluster, model
SETTINGS max_block_size = 256, max_bytes_before_external_group_by = 268435456`

// silencesSQL returns the runs of hours in which at least 90 % of a node's GPU time was unobserved, by cause (owners: for
// more than half of it a batch came without owners): the node, bounds, model, unobserved time in GPU-ms × 1000, and the
// nodes of the cluster in its first hour. Nodes of which nothing but allocation records is known are left out, and pools
// of unknown capacity. Parameters: from, to, the most rows.
const silencesSQL = `
SELECT cluster, node, owners, min(hour) AS start, max(hour) + INTERVAL 1 HOUR AS end, topK(1)(model)[1], sum(lost),
  argMin(nodes, hour)
FROM
(
    SELECT cluster, node, owners, hour, model, lost, nodes,
      row_number() OVER (PARTITION BY cluster, node, owners ORDER BY hour) AS n
    FROM
    (
        SELECT cluster, node, hour, model, lost, owners, capacity, unseen,
          count() OVER (PARTITION BY cluster, hour) AS nodes,
          max(capacity - unseen - unproven) OVER (PARTITION BY cluster, node) AS known
        FROM
        (
            SELECT cluster, node, hour, any(model) AS model,
              sum(toUInt64(slices) * present_ms) AS capacity, sum(unobserved) AS unseen, sum(arraySum(unproven)) AS unproven,
              sum(unobserved_attribution) * 2 > sum(unobserved) AS owners,
              sum(intDiv(least(unobserved, 5000000000000) * 1000, greatest(gpu_slices, 1))) AS lost
            FROM usage_hourly FINAL
            WHERE hour >= ? AND hour < ? AND unknown_capacity = 0 AND present_ms > 0
            GROUP BY cluster, node, hour
        )
    )
    WHERE known > 0 AND unseen * 10 >= capacity * 9
)
GROUP BY cluster, node, owners, toUnixTimestamp(hour) - 3600 * n
ORDER BY start DESC, cluster, node, owners
LIMIT ?`

// errorHoursSQL returns the XIDs of GPUs by hour and code, with their node. One less than a minute after another of the
// same GPU and code is not counted: several batches or readings may have the same error, and errors come in bursts.
// Parameters: from, to, the most rows.
const errorHoursSQL = `
SELECT cluster, argMax(node, at), gpu, toStartOfHour(at) AS hour, code, countIf(apart) AS times
FROM
(
    SELECT cluster, node, gpu, toDateTime(at, 'UTC') AS at, code,
      toUnixTimestamp64Milli(events.at) - lagInFrame(toUnixTimestamp64Milli(events.at)) OVER
        (PARTITION BY cluster, gpu, code ORDER BY events.at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) >= 60000 AS apart
    FROM events
    WHERE kind = 'xid' AND gpu != '' AND code > 0 AND at >= ? AND at < ?
)
GROUP BY cluster, gpu, hour, code
HAVING times > 0
ORDER BY hour DESC, cluster, gpu, code
LIMIT ?`

// statesSQL returns hours of some GPUs: those in which they were unhealthy, in GPU-ms × 1000, and those with the given
// keys (GPU, blank, Unix time of the hour), with what held them. Parameters: from, to, GPUs, keys, the most rows.
const statesSQL = `
SELECT cluster, gpu, model, hour, intDiv(least(unhealthy, 5000000000000) * 1000, greatest(gpu_slices, 1)),
  arrayDistinct(arrayMap((t, p, w) -> concat(t, '/', p, '/', w), tenant, project, workload))
FROM usage_hourly FINAL
WHERE hour >= ? AND hour < ? AND gpu IN ? AND (unhealthy > 0 OR concat(gpu, ' ', toString(toUnixTimestamp(hour))) IN ?)
ORDER BY hour DESC, cluster, gpu
LIMIT ?`

// doubtsSQL returns the time of each node that settlement gave one of some reasons, in runs of hours that follow each
// other by at most a day: an hour counts with half an hour of it, summed over leaves. Bounds, GPUs, model, leaf-ms,
// GPU-ms × 1000. Raw data is large, so that only some hours are read, each of which stands for device.Sampled, and in
// them the first slot of each ten minutes. Batches that another one replaced are not left out. Parameters: reasons, the
// hours, the most rows.
const doubtsSQL = `
SELECT cluster, node, why, min(hour) AS start, max(hour) + INTERVAL 1 HOUR AS end, arraySort(groupUniqArrayArray(gpus)),
  topK(1)(model)[1], sum(ms), sum(gpu_ms)
FROM
(
    SELECT *, sum(begins) OVER (PARTITION BY cluster, node, why ORDER BY hour) AS run
    FROM
    (
        SELECT *, hour - lagInFrame(hour) OVER
            (PARTITION BY cluster, node, why ORDER BY hour ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) > 86400 AS begins
        FROM
        (
            SELECT toString(cluster) AS cluster, toString(node) AS node, why, toStartOfHour(slot) AS hour,
              groupUniqArray(toString(gpu)) AS gpus, any(toString(model)) AS model, sum(greatest(slot_ms, 600000)) AS ms,
              toUInt64(sum(1000. * slice_ms / greatest(slices, 1) * greatest(slot_ms, 600000) / slot_ms)) AS gpu_ms
            FROM holds
            PREWHERE why IN ?
            WHERE toStartOfHour(slot) IN ? AND slice_ms > 0
              AND toUnixTimestamp(slot) % 600 < greatest(intDiv(slot_ms, 1000), 1)
            GROUP BY cluster, node, why, hour
            HAVING ms >= 1800000
        )
    )
)
GROUP BY cluster, node, why, run
ORDER BY start DESC, cluster, node, why
LIMIT ?`
