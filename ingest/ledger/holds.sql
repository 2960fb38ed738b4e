SELECT node, gpu, slot, batch, model, slices, kind, leaf, owner, bucket, why, slice_ms, work, energy_mj,
  unattributed_mj, energy_why,
       head, tail
FROM holds FINAL
PREWHERE cityHash64(gpu) % {parts:UInt64} = {part:UInt64}
WHERE cluster = {cluster:String}
  AND toStartOfHour(slot) >= toStartOfHour({from:DateTime('UTC')}) AND slot >= {from:DateTime('UTC')}
    AND slot < {to:DateTime('UTC')}
  AND (empty({nodes:Array(String)}) OR node IN {nodes:Array(String)}) AND ({gpu:String} = '' OR gpu = {gpu:String})
SETTINGS do_not_merge_across_partitions_select_final = 1
