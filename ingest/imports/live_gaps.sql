SELECT node, at_ms, after_ms, batch
FROM
(
    SELECT node, at_ms, batch,
           leadInFrame(at_ms, 1, 0) OVER (PARTITION BY node ORDER BY at_ms ROWS BETWEEN UNBOUNDED PRECEDING
             AND UNBOUNDED FOLLOWING) AS after_ms
    FROM
    (
        SELECT toString(node) AS node, toInt64(toUnixTimestamp(slot)) * 1000 AS at_ms,
          argMax(batch, (rev, collector, boot_ms, seq, hash)) AS batch
        FROM batches FINAL
        WHERE cluster = {cluster:String} AND status IN ('stored', 'late') AND rev > {fill:UInt64}
          AND node IN {nodes:Array(String)}
          AND toStartOfHour(slot) >= {from:DateTime('UTC')} AND slot >= {from:DateTime('UTC')}
            AND slot < {to:DateTime('UTC')}
        GROUP BY node, slot
    )
)
WHERE after_ms != at_ms + {length:Int64}
ORDER BY node, at_ms
