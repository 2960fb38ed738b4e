SELECT cluster, hour, gpu, node, model, slices, gpu_slices, unknown_capacity, present_ms, until_ms, epoch, inputs,
  free, stranded, unhealthy,
       unobserved, unobserved_attribution, platform_energy_mj, unattributed_mj, leaf, profile, profile_slices,
         owner, tenant, project,
       user, workload, active, idle, unproven, inferred, work, energy_mj, parked, rest_owner, rest_from,
  rest_ms, rest_slice_ms, rest_grade, rest_released
FROM usage_hourly FINAL
WHERE gpu = {gpu:String} AND hour = {hour:DateTime('UTC')} AND present_ms > 0
  AND ({cluster:String} = '' OR cluster = {cluster:String})
ORDER BY cluster
