SELECT hour, count() AS batches,
    lower(hex(SHA256(arrayStringConcat(arrayMap(x -> x.2, arraySort(groupArray((slot, toString(winner)))))))))
FROM
(
    SELECT toStartOfHour(slot) AS hour, slot, argMax(hash, (rev, collector, boot_ms, seq, hash)) AS winner
    FROM batches FINAL
    WHERE cluster = {cluster:String} AND node = {node:String} AND status = 'stored'
        AND toStartOfHour(slot) >= {from:DateTime('UTC')} AND toStartOfHour(slot) < {to:DateTime('UTC')}
    GROUP BY hour, slot
)
GROUP BY hour
