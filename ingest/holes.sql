SELECT collector, boot_ms, toUInt64(before + 1) AS from_seq, toUInt64(seq - 1) AS to_seq
FROM
(
    SELECT collector, boot_ms, seq,
           lagInFrame(toInt64(seq), 1, toInt64(-1)) OVER (PARTITION BY collector,
             boot_ms ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before
    FROM (SELECT DISTINCT collector, boot_ms, seq FROM batches FINAL WHERE status IN ('stored', 'late'))
)
WHERE toInt64(seq) > before + 1
