SELECT hour, part.1 AS tenant, part.2 AS project, toString(model) AS gpu_model, part.3 AS profile,
    part.4 AS profile_slices, gpu_slices, part.5 AS bucket,
    if(sum(toFloat64(part.6)) < 9e18, toInt64(sum(part.6)), 9223372036854775807) AS slice_ms,
    if(abs(sum(toFloat64(part.7))) < 9e18, sum(part.7), 9223372036854775807) AS energy
FROM
(
    SELECT hour, model, gpu_slices, arrayJoin(arrayConcat(
        arrayMap((t, p, f, s, a, i, u, e) ->
            (toString(t), toString(p), toString(f), s, 'active', a, if(a > 0 OR i + u = 0, e, toInt64(0))),
            tenant, project, profile, profile_slices, active, idle, unproven, energy_mj),
        arrayMap((t, p, f, s, a, i, e) ->
            (toString(t), toString(p), toString(f), s, 'idle', i, if(a = 0 AND i > 0, e, toInt64(0))),
            tenant, project, profile, profile_slices, active, idle, energy_mj),
        arrayMap((t, p, f, s, a, i, u, e) ->
            (toString(t), toString(p), toString(f), s, 'unproven', u, if(a = 0 AND i = 0 AND u > 0, e, toInt64(0))),
            tenant, project, profile, profile_slices, active, idle, unproven, energy_mj),
        [('', '', '', toUInt16(0), 'free', free, platform_energy_mj),
         ('', '', '', toUInt16(0), 'stranded', stranded, toInt64(0)),
         ('', '', '', toUInt16(0), 'unhealthy', unhealthy, toInt64(0)),
         ('', '', '', toUInt16(0), 'unobserved', unobserved, toInt64(0)),
         ('', '', '', toUInt16(0), 'capacity', toUInt64(slices) * present_ms, toInt64(0)),
         ('', '', '', toUInt16(0), 'unattributed', toUInt64(0), unattributed_mj)])) AS part
    FROM usage_hourly FINAL
    WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}
)
WHERE part.6 > 0 OR part.7 != 0
GROUP BY hour, tenant, project, gpu_model, profile, profile_slices, gpu_slices, bucket
ORDER BY hour, tenant, project, gpu_model, profile, profile_slices, gpu_slices, bucket
