package analyzer

// Sums of slice-ms reach at most 5e14 an hour, which is 139,000 GPUs in thousandths,
// so that calculations fit 64 bits.

// idleHoursSQL returns the hours of every owner on every leaf that are idle or without
// evidence, in the order that idle.Finder requires. Hours with work are left out,
// because a missing hour ends an episode, too. Parameters: from, to, least idle share
// in 1e-4.
const idleHoursSQL = `
SELECT cluster, gpu, leaf, tenant, project, workload, hour,
    max(node), max(user), any(model), max(gpu_slices), max(profile_slices),
    if(sum(toFloat64(active_slice_ms)) < 5e14, sum(active_slice_ms), 500000000000000) AS active,
    if(sum(toFloat64(idle_slice_ms)) < 5e14, sum(idle_slice_ms), 500000000000000) AS idle,
    if(sum(toFloat64(unproven_slice_ms)) < 5e14, sum(unproven_slice_ms), 500000000000000) AS unproven
FROM usage
WHERE kind = 'owner' AND hour >= ? AND hour < ?
GROUP BY cluster, gpu, leaf, tenant, project, workload, hour
HAVING active + idle + unproven > 0 AND (active = 0 OR idle * 10000 >= (active + idle + unproven) * ?)
ORDER BY cluster, gpu, leaf, tenant, project, workload, hour`

// idleHoursOfGPUsSQL returns the same for some GPUs. Parameters: from, to, GPUs, least
// idle share in 1e-4.
const idleHoursOfGPUsSQL = `
SELECT cluster, gpu, leaf, tenant, project, workload, hour,
    max(node), max(user), any(model), max(gpu_slices), max(profile_slices),
    if(sum(toFloat64(active_slice_ms)) < 5e14, sum(active_slice_ms), 500000000000000) AS active,
    if(sum(toFloat64(idle_slice_ms)) < 5e14, sum(idle_slice_ms), 500000000000000) AS idle,
    if(sum(toFloat64(unproven_slice_ms)) < 5e14, sum(unproven_slice_ms), 500000000000000) AS unproven
FROM usage
WHERE kind = 'owner' AND hour >= ? AND hour < ? AND gpu IN ?
GROUP BY cluster, gpu, leaf, tenant, project, workload, hour
HAVING active + idle + unproven > 0 AND (active = 0 OR idle * 10000 >= (active + idle + unproven) * ?)
ORDER BY cluster, gpu, leaf, tenant, project, workload, hour`

// activeHoursSQL returns every tenant's active time by hour and model. Hours in which
// the tenant held GPUs without working are included with zero, because its history
// begins with its first hold. Parameters: from, to.
const activeHoursSQL = `
SELECT cluster, tenant, hour, model, gpu_slices,
  if(sum(toFloat64(active_slice_ms)) < 5e14, sum(active_slice_ms), 500000000000000)
FROM usage
WHERE kind = 'owner' AND hour >= ? AND hour < ?
GROUP BY cluster, tenant, hour, model, gpu_slices
ORDER BY cluster, tenant, hour, model, gpu_slices`

// coverageSQL returns the hours of each cluster of which at least half was observed.
// Parameters: from, to.
const coverageSQL = `
SELECT cluster, hour
FROM usage_hourly FINAL
WHERE hour >= ? AND hour < ?
GROUP BY cluster, hour
HAVING sum(toUInt128(slices) * present_ms) > 0 AND sum(toUInt128(unobserved)) * 2 <= sum(toUInt128(slices) * present_ms)
ORDER BY cluster, hour`

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

// longIdleSQL returns the published idle allocations that began before one instant and
// end after another: their GPUs, and the earliest start. Parameters: the second
// instant, the first.
const longIdleSQL = `
SELECT DISTINCT gpu, min(start) OVER () FROM anomalies FINAL
WHERE deleted = 0 AND kind = 'idle_allocation' AND end > ? AND start < ?
ORDER BY gpu`

// publishedSQL returns the published episodes that overlap a range, with their
// versions. Parameters: to, from.
const publishedSQL = `
SELECT id, kind, cluster, tenant, project, workload, node, gpu, leaf, start, end,
    wasted_gpu_hours, wasted_cost, currency, evidence, version
FROM anomalies FINAL
WHERE deleted = 0 AND start < ? AND end > ?
ORDER BY start, id`

// newestVersionSQL returns the highest version of all rows, 0 if there are none.
// Deleted rows count: an episode that comes back must outrank its own deletion.
const newestVersionSQL = `SELECT max(version) FROM anomalies`
