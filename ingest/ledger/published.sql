SELECT formatRowNoNewline('RowBinary', cluster, hour, gpu, node, model, slices, gpu_slices, unknown_capacity,
  present_ms, free, stranded,
       unhealthy, unobserved, unobserved_attribution, platform_energy_mj, unattributed_mj, leaf, profile,
         profile_slices, owner, tenant, project,
       user, workload, active, idle, unproven, inferred, work, energy_mj, parked, rest_owner, rest_from, rest_ms,
       rest_slice_ms, rest_grade, rest_released) AS line
FROM usage_hourly FINAL
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND present_ms > 0
ORDER BY cluster, hour, gpu
