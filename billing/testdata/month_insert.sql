-- A cluster's GPU-hours, as the ledger would write them, out of nothing but
-- numbers: the same parameters give the same rows. Of ten GPUs three are cut by
-- MIG (one with a slice that nobody can have), three are whole H100, two A100,
-- one an A30 and one an L40S. A leaf has an owner for a day or weeks; each
-- hour it works, idles, both, or is free for a part. One GPU in 97 comes to the
-- cluster in the middle of an hour.
-- Parameters: gpus, tenants, from (a UTC hour), hours, arrival (a UTC hour).
INSERT INTO usage_hourly
(
    cluster, hour, gpu, node, model, slices, gpu_slices, present_ms, until_ms, version,
    free, stranded, unhealthy, unobserved, platform_energy_mj, unattributed_mj,
    leaf, profile, profile_slices, owner, tenant, project, user, workload, active, idle, unproven, inferred, work, energy_mj
)
WITH
    -- (index, profile slices, first cut, second cut, workload) of each leaf that is held
    arrayFilter(x -> x.3 > 0, arrayMap(
        (i, s, r, run) -> (
            i, s,
            -- slice-ms held, and the part of it that is active, and that is idle
            multiIf(lost OR blind, 0, r % 100 < 8, 0, r % 100 < 20, s * intDiv(present * (r % 3600), 3600), s * present) AS held_ms,
            multiIf(r % 7 = 0, 0, r % 7 < 4, held_ms, intDiv(held_ms * (intDiv(r, 7) % 100), 100)) AS active_ms,
            multiIf(r % 5 = 0, 0, held_ms - active_ms),
            run),
        arrayEnumerate(layout), layout,
        arrayMap(i -> cityHash64('hour', g, i, h), arrayEnumerate(layout)),
        arrayMap(i -> cityHash64('run', g, i, intDiv(h, 24 * (1 + g % 20))), arrayEnumerate(layout)))) AS held,
    arraySum(x -> x.3, held) AS held_sum,
    toUInt64(board) * present AS capacity,
    arraySum(layout) AS covered
SELECT
    concat('cluster-', toString(g % 2)), at, concat('GPU-', leftPad(toString(g), 6, '0')), concat('node-', toString(intDiv(g, 8))),
    gpu_model, board, board, present, present, 1,
    if(lost OR blind, 0, capacity - held_sum - (board - covered) * present), if(lost OR blind, 0, (board - covered) * present),
    if(lost, capacity, 0), if(blind, capacity, 0), toInt64(90000000 + g % 1000), toInt64(if(g % 50 = 1, 3600000, 0)),
    arrayMap(x -> concat('leaf-', toString(x.1)), held),
    arrayMap(x -> if(x.2 = board, '', concat(toString(x.2), 'g.', toString(x.2 * 10), 'gb')), held),
    arrayMap(x -> if(x.2 = board, 0, x.2), held),
    arrayMap(x -> x.6, held),
    arrayMap(x -> concat('tenant-', leftPad(toString(x.6 % {tenants:UInt32}), 2, '0')), held),
    arrayMap(x -> concat('project-', toString(intDiv(x.6, 64) % 3)), held),
    arrayMap(x -> concat('user-', toString(intDiv(x.6, 512) % 9)), held),
    arrayMap(x -> concat('pod-', lower(hex(x.6))), held),
    arrayMap(x -> x.4, held), arrayMap(x -> x.5, held), arrayMap(x -> x.3 - x.4 - x.5, held),
    arrayMap(x -> 0, held), arrayMap(x -> x.4, held),
    arrayMap(x -> toInt64(intDiv(x.3 * (200 + x.6 % 500), board)), held)
FROM
(
    SELECT
        number % {gpus:UInt32} AS g, intDiv(number, {gpus:UInt32}) AS since,
        {from:DateTime('UTC')} + toIntervalHour(since) AS at,
        toUInt64(intDiv(toUnixTimestamp(at), 3600)) AS h,
        ['H100', 'H100', 'H100', 'H100', 'H100', 'H100', 'A100', 'A100', 'A30', 'L40S'][1 + g % 10] AS gpu_model,
        toUInt16(multiIf(gpu_model = 'L40S', 1, gpu_model = 'A30', 4, 7)) AS board,
        multiIf(g % 10 = 0, [1, 1, 1, 1, 1, 1, 1], g % 10 = 1, [3, 2, 1, 1], g % 10 = 2, [3, 3], [board]) AS layout,
        if(g % 97 = 5 AND at = {arrival:DateTime('UTC')}, 1234567, 3600000) AS present,
        cityHash64('lost', g, intDiv(h, 24)) % 200 = 0 AS lost,
        NOT lost AND cityHash64('blind', g, h) % 500 = 0 AS blind
    FROM numbers(toUInt64({gpus:UInt32}) * {hours:UInt32})
    WHERE g % 97 != 5 OR at >= {arrival:DateTime('UTC')}
)
