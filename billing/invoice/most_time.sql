SELECT hour, part.1 AS tenant, (argMax((toString(cluster), toString(node), toString(gpu)), part.2) AS most).1,
    most.2, most.3
FROM
(
    SELECT hour, cluster, node, gpu, arrayJoin(arrayConcat(
        [('', greatest(toFloat64(slices) * present_ms / 3.6e15, abs(toFloat64(platform_energy_mj)) / 1e17))],
        arrayMap((t, a, i, u, e) -> (toString(t), greatest((toFloat64(a) + i + u) / 3.6e15, abs(toFloat64(e)) / 1e17)),
            tenant, active, idle, unproven, energy_mj))) AS part
    FROM usage_hourly FINAL
    WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}
        AND toUnixTimestamp(hour) IN {hours:Array(UInt32)}
)
GROUP BY hour, tenant
