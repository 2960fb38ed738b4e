SELECT toString(kind), count(), sum(wasted_gpu_hours)
FROM anomalies FINAL
WHERE deleted = 0 AND grade NOT IN ('suspected', 'none') AND kind != 'idle_pattern' AND start < {to:DateTime('UTC')} AND end > {from:DateTime('UTC')}
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY kind
ORDER BY kind
