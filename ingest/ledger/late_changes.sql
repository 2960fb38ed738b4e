SELECT node, hour, collector, last
FROM
(
    SELECT node, toStartOfHour(slot) AS hour, collector, max(appended_at) AS last,
      min(min(appended_at)) OVER (PARTITION BY hour) AS known
    FROM batches FINAL
    WHERE cluster = {cluster:String} AND status = 'stored' AND slot >= {from:DateTime('UTC')}
      AND slot < {to:DateTime('UTC')}
    GROUP BY node, hour, collector
)
WHERE last > hour + 3600 + {after:UInt32} AND last > known + {after:UInt32}
ORDER BY hour, node, collector
