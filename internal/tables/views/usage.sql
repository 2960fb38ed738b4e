-- A row per GPU, hour, leaf and owner; the platform's row has an empty tenant
-- and no leaf; energy that belongs to no slot is a row of tenant "(unattributed)".
SELECT
    cluster, hour, node, gpu, model, slices, gpu_slices, unknown_capacity,
    row.1 AS leaf, row.2 AS profile, row.3 AS profile_slices,
    row.4 AS tenant, row.5 AS project, row.6 AS user, row.7 AS workload,
    row.8 AS active_slice_ms, row.9 AS idle_slice_ms, row.10 AS unproven_slice_ms,
    row.11 AS free_slice_ms, row.12 AS stranded_slice_ms, row.13 AS unhealthy_slice_ms, row.14 AS unobserved_slice_ms,
    row.15 AS energy_mj, row.16 AS work, row.17 AS inferred_slice_ms, row.18 AS kind
FROM
(
    SELECT
        cluster, hour, node, gpu, model, slices, gpu_slices, unknown_capacity,
        arrayJoin(arrayConcat(
            arrayMap((l, p, ps, t, pr, u, w, a, i, n, e, wk, guess) ->
                (toString(l), toString(p), ps, toString(t), toString(pr), toString(u), w, a, i, n,
                 toUInt64(0), toUInt64(0), toUInt64(0), toUInt64(0), e, wk, guess, 'owner'),
                leaf, profile, profile_slices, tenant, project, user, workload, active, idle, unproven, energy_mj, work, inferred),
            [('', '', toUInt16(0), '', '', '', '', toUInt64(0), toUInt64(0), toUInt64(0),
              free, stranded, unhealthy, unobserved, platform_energy_mj, toUInt64(0), toUInt64(0), 'platform')],
            if(unattributed_mj = 0, [],
            [('', '', toUInt16(0), '(unattributed)', '', '', '', toUInt64(0), toUInt64(0), toUInt64(0),
              toUInt64(0), toUInt64(0), toUInt64(0), toUInt64(0), unattributed_mj, toUInt64(0), toUInt64(0), 'unattributed')])
        )) AS row
    FROM usage_hourly FINAL
)
