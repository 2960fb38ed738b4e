-- The ledger by UTC day. gpu_slices is that of one GPU: GPU-hours are slice-ms by
-- gpu_slices × 3,600,000, to nine places, cut; a row of kind "platform" has no tenant, its time is free,
-- stranded, unhealthy or unobserved.
SELECT
    toDate(hour) AS day, cluster, model, slices, gpu_slices, profile, kind, tenant, project,
    sum(toUInt128(usage.active_slice_ms)) AS active_slice_ms, sum(toUInt128(usage.idle_slice_ms)) AS idle_slice_ms,
    sum(toUInt128(usage.unproven_slice_ms)) AS unproven_slice_ms, sum(toUInt128(usage.free_slice_ms)) AS free_slice_ms,
    sum(toUInt128(usage.stranded_slice_ms)) AS stranded_slice_ms, sum(toUInt128(usage.unhealthy_slice_ms)) AS unhealthy_slice_ms,
    sum(toUInt128(usage.unobserved_slice_ms)) AS unobserved_slice_ms,
    divideDecimal(toDecimal128(sum(toUInt128(usage.active_slice_ms) + usage.idle_slice_ms + usage.unproven_slice_ms + usage.free_slice_ms
                  + usage.stranded_slice_ms + usage.unhealthy_slice_ms + usage.unobserved_slice_ms), 0),
                  toDecimal128(toUInt64(gpu_slices) * 3600000, 0), 9) AS gpu_hours,
    divideDecimal(toDecimal128(sum(toInt128(usage.energy_mj)), 0), toDecimal128(1000, 0), 3) AS energy_joules
FROM usage
GROUP BY day, cluster, model, slices, gpu_slices, profile, kind, tenant, project
