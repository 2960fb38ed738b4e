WITH winners AS
(
    SELECT argMax(batch, (rev, collector, boot_ms, seq, hash)) AS batch
    FROM batches FINAL WHERE status = 'stored' GROUP BY cluster, node, slot
),
moved AS
(
    SELECT cluster, toStartOfHour(slot) AS hour, gpu, sum(toInt128(energy_mj) + unattributed_mj) AS mj,
      uniqExact(node) AS nodes
    FROM holds FINAL
    WHERE batch GLOBAL IN (SELECT batch FROM winners)
      AND NOT arrayExists((name, until) -> name = cluster AND toUnixTimestamp(slot) >= until, {ahead:Array(String)}, {until:Array(UInt32)})
    GROUP BY cluster, hour, gpu
),
booked AS
(
    SELECT cluster, hour, gpu, toInt128(platform_energy_mj) + unattributed_mj + arraySum(x -> toInt128(x), usage_hourly.energy_mj) AS mj FROM usage_hourly FINAL
)
SELECT countIf(nodes = 1) AS rows, sumIf(moved.mj, nodes = 1) AS moved_mj, sumIf(booked.mj, nodes = 1) AS booked_mj,
       countIf(nodes = 1 AND moved.mj != booked.mj) AS wrong,
       anyIf(concat(toString(hour), ' ', gpu), nodes = 1 AND moved.mj != booked.mj) AS example,
         countIf(nodes > 1) AS shared
FROM moved LEFT JOIN booked USING (cluster, hour, gpu) SETTINGS compile_expressions = 0
