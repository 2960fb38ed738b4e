SELECT toString(tenant) AS name, toYYYYMM(hour, 'UTC') AS month, min(hour), max(hour)
FROM usage
WHERE kind = 'owner' AND (active_slice_ms > 0 OR idle_slice_ms > 0 OR unproven_slice_ms > 0 OR energy_mj != 0)
    AND ({tenant:String} = '' OR tenant = {tenant:String}) AND ({paged:UInt8} = 0 OR tenant > {after:String})
GROUP BY name, month
ORDER BY name, month
