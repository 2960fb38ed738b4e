SELECT DISTINCT toString(gpu) AS gpu FROM usage_hourly FINAL
WHERE hour = {hour:DateTime('UTC')} AND ({cluster:String} = '' OR cluster = {cluster:String}) AND present_ms > 0
  AND hasAny(owner,
(
    SELECT groupArray(id) FROM owners FINAL
    WHERE ({job:String} != '' AND job = {job:String}) OR ({pod:String} != ''
      AND ({namespace:String} = '' OR namespace = {namespace:String}) AND {pod:String} IN (pod, uid))
)) ORDER BY gpu
