-- The one slot length of each cluster, ms: what was declared first counts.
SELECT cluster, argMin(c.slot_ms, (c.since, c.slot_ms)) AS slot_ms FROM clusters AS c GROUP BY cluster
