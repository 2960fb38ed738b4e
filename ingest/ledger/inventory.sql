SELECT seen.cluster AS cluster, seen.gpu AS gpu, node, model, slices, toUInt8(kind) AS kind, first_ms, last_ms,
  retired_at, who, reason
FROM
(
    SELECT cluster, toString(gpu) AS gpu, argMax(node, (s.last_ms, s.run_from_ms)) AS node,
      argMax(model, (s.last_ms, s.run_from_ms)) AS model,
           argMax(slices_last, (s.last_ms, s.run_from_ms)) AS slices,
             argMax(kind_last, (s.last_ms, s.run_from_ms)) AS kind,
           min(s.first_ms) AS first_ms, max(s.last_ms) AS last_ms
    FROM sightings AS s FINAL WHERE s.last_ms > 0 GROUP BY cluster, gpu
) AS seen
LEFT JOIN
(
    SELECT cluster, gpu, max(r.at) AS retired_at, argMax(who, r.at) AS who, argMax(reason, r.at) AS reason
    FROM retirements AS r FINAL GROUP BY cluster, gpu
) AS retired ON seen.cluster = retired.cluster AND seen.gpu = retired.gpu
ORDER BY cluster, gpu
