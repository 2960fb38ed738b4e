package grafana

// The queries use macros of the ClickHouse data source: $__fromTime and
// $__toTime are the range's ends, $__timeInterval(c) is the start of c's
// interval, $__interval_s its seconds.
//
// Names come from whoever can name a tenant, and a variable's value also from
// a page's address. No formatter of Grafana's quotes for ClickHouse:
// singlequote leaves the backslash alone. So a variable holds hexadecimal
// digits (of its query, the data source takes the first column for the value
// and the second for the text), and is written percent-encoded, in which there
// is neither quote nor backslash: several values as %7BA%2CB%7D for {A,B}.

// What is chosen, to stand after IN.
const (
	chosenClusters = `arrayMap(v -> unhex(v), splitByChar(',', trim(BOTH '{}' FROM decodeURLComponent('${cluster:percentencode}'))))`
	chosenTenants  = `arrayMap(v -> unhex(v), splitByChar(',', trim(BOTH '{}' FROM decodeURLComponent('${tenant:percentencode}'))))`
	chosenGPU      = `arrayMap(v -> unhex(v), splitByChar(',', trim(BOTH '{}' FROM decodeURLComponent('${gpu:percentencode}'))))`
)

const clusterVariableSQL = `SELECT DISTINCT hex(cluster) AS value, cluster AS text FROM usage_hourly ORDER BY cluster`

const tenantVariableSQL = `
SELECT DISTINCT hex(tenant) AS value, tenant AS text FROM usage
WHERE kind = 'owner' AND hour >= $__fromTime AND hour < $__toTime ORDER BY tenant`

const gpuVariableSQL = `
SELECT DISTINCT hex(gpu) AS value, gpu AS text FROM usage_hourly
WHERE gpu != '' AND cluster IN ` + chosenClusters + ` AND hour >= $__fromTime AND hour < $__toTime ORDER BY gpu`

// totalsSQL is one row: the range's capacity and what became of it.
// unaccounted_gpu_hours is C6 over the range: each GPU-hour's difference is an exact
// integer, and 0 unless a row was written past the table's constraint.
const totalsSQL = `
SELECT
    sum(toUInt64(slices) * present_ms / (greatest(gpu_slices, 1) * 3600000.)) AS capacity_gpu_hours,
    sum((arraySum(active) + arraySum(idle) + arraySum(unproven)) / (greatest(gpu_slices, 1) * 3600000.)) / capacity_gpu_hours AS held_share,
    sum(arraySum(active) / (greatest(gpu_slices, 1) * 3600000.)) / capacity_gpu_hours AS active_share,
    sum(arraySum(idle) / (greatest(gpu_slices, 1) * 3600000.)) AS idle_gpu_hours,
    sum((toInt64(slices) * present_ms - toInt64(free + stranded + unhealthy + unobserved
        + arraySum(active) + arraySum(idle) + arraySum(unproven))) / (greatest(gpu_slices, 1) * 3600000.)) AS unaccounted_gpu_hours
FROM usage_hourly FINAL
WHERE cluster IN ` + chosenClusters + ` AND hour >= $__fromTime AND hour < $__toTime`

// capacitySQL: mean GPUs in each bucket. An hour's GPU-hours are its mean GPUs,
// so an interval's are divided by its hours.
const capacitySQL = `
SELECT $__timeInterval(hour) AS time,
    sum(active_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS active,
    sum(idle_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS idle,
    sum(unproven_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS unproven,
    sum(free_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS free,
    sum(stranded_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS stranded,
    sum(unhealthy_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS unhealthy,
    sum(unobserved_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS unobserved
FROM usage
WHERE cluster IN ` + chosenClusters + ` AND hour >= $__fromTime AND hour < $__toTime
GROUP BY time ORDER BY time`

const tenantsOverTimeSQL = `
SELECT $__timeInterval(hour) AS time, tenant,
    sum((active_slice_ms + idle_slice_ms + unproven_slice_ms) / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS held
FROM usage
WHERE kind = 'owner' AND cluster IN ` + chosenClusters + ` AND tenant IN ` + chosenTenants + `
    AND hour >= $__fromTime AND hour < $__toTime
GROUP BY time, tenant ORDER BY time, tenant`

const tenantsSQL = `
SELECT tenant, project,
    sum(active_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) AS active_gpu_hours,
    sum(idle_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) AS idle_gpu_hours,
    sum(unproven_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) AS unproven_gpu_hours,
    active_gpu_hours + idle_gpu_hours + unproven_gpu_hours AS held_gpu_hours,
    idle_gpu_hours / held_gpu_hours AS idle_share,
    sum(toInt128(energy_mj)) / 3.6e9 AS energy_kwh
FROM usage
WHERE kind = 'owner' AND cluster IN ` + chosenClusters + ` AND tenant IN ` + chosenTenants + `
    AND hour >= $__fromTime AND hour < $__toTime
GROUP BY tenant, project HAVING held_gpu_hours > 0 ORDER BY held_gpu_hours DESC, tenant, project`

const idleByTenantSQL = `
SELECT tenant, sum(idle_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) AS idle_gpu_hours
FROM usage
WHERE kind = 'owner' AND cluster IN ` + chosenClusters + ` AND tenant IN ` + chosenTenants + `
    AND hour >= $__fromTime AND hour < $__toTime
GROUP BY tenant HAVING idle_gpu_hours > 0 ORDER BY idle_gpu_hours DESC, tenant LIMIT 10`

const idleByWorkloadSQL = `
SELECT tenant, project, workload, any(user) AS user, node, gpu, leaf,
    sum(idle_slice_ms / (greatest(gpu_slices, 1) * 3600000.)) AS idle_gpu_hours,
    sum(toUInt128(idle_slice_ms)) / sum(toUInt128(active_slice_ms) + idle_slice_ms + unproven_slice_ms) AS idle_share
FROM usage
WHERE kind = 'owner' AND cluster IN ` + chosenClusters + ` AND tenant IN ` + chosenTenants + `
    AND hour >= $__fromTime AND hour < $__toTime
GROUP BY tenant, project, workload, node, gpu, leaf
HAVING idle_gpu_hours > 0 ORDER BY idle_gpu_hours DESC, gpu, leaf, workload LIMIT 20`

const strandedSQL = `
SELECT $__timeInterval(hour) AS time, model,
    sum(stranded / (greatest(gpu_slices, 1) * 3600000.)) / ($__interval_s / 3600.) AS stranded
FROM usage_hourly FINAL
WHERE cluster IN ` + chosenClusters + ` AND hour >= $__fromTime AND hour < $__toTime
GROUP BY time, model ORDER BY time, model`

const strandedByGPUSQL = `
SELECT cluster, node, gpu, model,
    sum(stranded / (greatest(gpu_slices, 1) * 3600000.)) AS stranded_gpu_hours,
    sum(toUInt128(stranded)) / sum(toUInt128(slices) * present_ms) AS stranded_share
FROM usage_hourly FINAL
WHERE cluster IN ` + chosenClusters + ` AND hour >= $__fromTime AND hour < $__toTime AND stranded > 0
GROUP BY cluster, node, gpu, model ORDER BY stranded_gpu_hours DESC, gpu LIMIT 20`

// energySQL counts the platform's and the unattributed energy too, whatever
// tenants are chosen: left out, the sum would not be the meter's.
const energySQL = `
SELECT $__timeInterval(hour) AS time,
    multiIf(kind = 'platform', '(platform)', tenant) AS account,
    sum(toInt128(energy_mj)) / 3.6e9 AS energy
FROM usage
WHERE cluster IN ` + chosenClusters + ` AND (kind != 'owner' OR tenant IN ` + chosenTenants + `)
    AND hour >= $__fromTime AND hour < $__toTime
GROUP BY time, account HAVING energy != 0 ORDER BY time, account`

const anomaliesSQL = `
SELECT start, end, kind, tenant, project, workload, node, gpu, leaf,
    toFloat64(wasted_gpu_hours) AS wasted_gpu_hours, toFloat64(wasted_cost) AS wasted_cost, currency, evidence
FROM anomalies FINAL
WHERE deleted = 0 AND cluster IN ` + chosenClusters + ` AND tenant IN ` + chosenTenants + `
    AND start < $__toTime AND end > $__fromTime
ORDER BY wasted_gpu_hours DESC, start, id LIMIT 100`

const unobservedSQL = `
SELECT $__timeInterval(hour) AS time, cluster,
    sum(toUInt128(unobserved) - unobserved_attribution) / sum(toUInt128(slices) * present_ms) AS unseen,
    sum(toUInt128(unobserved_attribution)) / sum(toUInt128(slices) * present_ms) AS without_owners
FROM usage_hourly FINAL
WHERE cluster IN ` + chosenClusters + ` AND hour >= $__fromTime AND hour < $__toTime
GROUP BY time, cluster HAVING sum(present_ms) > 0 ORDER BY time, cluster`

// freshnessSQL: up to when each cluster's ledger is complete. Not bound to the
// range: it is about now.
const freshnessSQL = `
SELECT cluster,
    max(addMilliseconds(toDateTime64(hour, 3, 'UTC'), until_ms)) AS watermark,
    dateDiff('second', watermark, now64(3, 'UTC')) AS behind_seconds,
    uniqExact(gpu) AS gpus
FROM usage_hourly FINAL
WHERE (cluster, hour) GLOBAL IN (SELECT cluster, max(hour) FROM usage_hourly WHERE cluster IN ` + chosenClusters + ` GROUP BY cluster)
GROUP BY cluster ORDER BY cluster`

// boardSQL: bits of present, in the order of the table's metric columns:
// 0 SM activity, 2 tensor, 3 DRAM, 5 power.
const boardSQL = `
SELECT $__timeInterval(slot) AS time,
    avgOrNullIf(power_dw, bitTest(present, 5)) / 10 AS power_watts,
    avgOrNullIf(sm_active, bitTest(present, 0)) / 1e4 AS sm_active,
    avgOrNullIf(tensor_active, bitTest(present, 2)) / 1e4 AS tensor_active,
    avgOrNullIf(dram_active, bitTest(present, 3)) / 1e4 AS dram_active
FROM samples FINAL
WHERE cluster IN ` + chosenClusters + ` AND gpu IN ` + chosenGPU + ` AND device = ''
    AND slot >= $__fromTime AND slot < $__toTime
GROUP BY time ORDER BY time`

// leavesSQL: SM activity of the leaves of a GPU in MIG mode.
const leavesSQL = `
SELECT $__timeInterval(slot) AS time, device AS leaf,
    avgOrNullIf(sm_active, bitTest(present, 0)) / 1e4 AS sm_active
FROM samples FINAL
WHERE cluster IN ` + chosenClusters + ` AND gpu IN ` + chosenGPU + ` AND device != ''
    AND slot >= $__fromTime AND slot < $__toTime
GROUP BY time, leaf ORDER BY time, leaf`
