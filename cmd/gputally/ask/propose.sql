SELECT model, toUInt64(max(slices)), uniqExactIf((cluster, gpu), rest), countIf(rest), countIf(busy),
    ifNotFinite(quantileIf(0.5)(watts, rest), 0), ifNotFinite(quantileIf(0.95)(watts, rest), 0),
    ifNotFinite(quantileIf(0.5)(watts, busy), 0), max(known)
FROM
(
    SELECT cluster, gpu, batch, any(toString(model)) AS model, any(slices) AS slices,
        min(bucket = 'free') AS rest, max(bucket = 'active') AS busy
    FROM holds FINAL
    WHERE slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')} AND kind = 0
    GROUP BY cluster, gpu, batch
) AS h
INNER JOIN
(
    SELECT cluster, gpu, batch, power_dw / 10 AS watts, idle_dw / 10 AS known,
        bitTest(present, 0) AND sm_active >= 50 OR bitTest(present, 1) AND gr_engine_active >= 50 AS works
    FROM samples FINAL
    WHERE slot >= {from:DateTime('UTC')} AND slot < {to:DateTime('UTC')} AND device = '' AND bitTest(present, 5)
) AS s USING (cluster, gpu, batch)
WHERE (rest AND NOT works) OR busy
GROUP BY model
ORDER BY model
