WITH toUInt128(free) + stranded + unhealthy + unobserved + arraySum(x -> toUInt128(x),
  arrayConcat(active, idle, unproven)) AS buckets,
     toUInt128(slices) * present_ms AS present
SELECT count() AS rows, sum(present) AS capacity, sum(buckets) AS counted, countIf(present != buckets) AS wrong,
       countIf(version != bitOr(bitOr(bitShiftLeft(toUInt64(epoch), 44), bitShiftLeft(inputs, 12)),
         toUInt64(intDiv(until_ms, 1000)))) AS unfounded,
       countIf(unknown_capacity = 1 AND present_ms > 0) AS open_pools
FROM usage_hourly FINAL SETTINGS compile_expressions = 0
