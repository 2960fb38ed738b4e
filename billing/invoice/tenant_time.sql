SELECT hour, cluster, node, gpu, toString(model), gpu_slices, part.1 AS leaf, part.2 AS profile,
    part.3 AS project, part.4 AS user, part.5 AS workload, part.6 AS active, part.7 AS idle, part.8 AS unproven,
    part.9 AS energy, part.11 AS profile_slices
FROM
(
    SELECT hour, toString(cluster) AS cluster, toString(node) AS node, toString(gpu) AS gpu, model, gpu_slices,
        arrayJoin(arrayFilter(x -> x.10 = {tenant:String}, arrayMap((l, p, pr, u, w, a, i, n, e, t, s) ->
            (toString(l), toString(p), toString(pr), toString(u), w, a, i, n, e, toString(t), s),
            leaf, profile, project, user, workload, active, idle, unproven, energy_mj, tenant, profile_slices))) AS part
    FROM usage_hourly FINAL
    WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND has(tenant, {tenant:String})
)
ORDER BY hour, cluster, node, gpu, leaf, project, user, workload
