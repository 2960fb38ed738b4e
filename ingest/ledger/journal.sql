SELECT node, slot, collector, boot_ms, seq, rev, batch, hash, attribution_ok, enumeration_complete, observed_ms,
  observed, hold_rows
FROM batches FINAL
WHERE cluster = {cluster:String} AND status = 'stored'
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
  AND (empty({nodes:Array(String)}) OR node IN {nodes:Array(String)})
ORDER BY node, slot
