SELECT DISTINCT toString(part.1) AS holder, hour
FROM
(
    SELECT hour, arrayJoin(arrayMap((t, a, i, u) -> (toString(t), toUInt8(a > 0 OR i > 0 OR u > 0)),
        tenant, active, idle, unproven)) AS part
    FROM usage_hourly FINAL
)
WHERE part.2 > 0
ORDER BY holder, hour
