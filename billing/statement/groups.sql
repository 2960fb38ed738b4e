SELECT by_values, sum(active_hours), sum(idle_hours), sum(unproven_hours), sum(free_hours), sum(stranded_hours),
    sum(unhealthy_hours), sum(unobserved_hours), sum(mj)
FROM
(
    SELECT multiIf({group:String} = 'hours', [formatDateTime(hour, '%Y-%m-%dT%H:00:00Z', 'UTC')],
            {group:String} = 'workloads', [toString(workload), toString(project)],
            {group:String} = 'users', [toString(`user`)],
            {group:String} = 'waste', [toString(tenant), toString(workload)], [toString(model)]) AS by_values,
        toDecimal128(toUInt64(gpu_slices) * 3600000, 0) AS hour_ms,
        divideDecimal(toDecimal128(sum(toUInt128(active_slice_ms)), 0), hour_ms, 9) AS active_hours,
        divideDecimal(toDecimal128(sum(toUInt128(idle_slice_ms)), 0), hour_ms, 9) AS idle_hours,
        divideDecimal(toDecimal128(sum(toUInt128(unproven_slice_ms)), 0), hour_ms, 9) AS unproven_hours,
        divideDecimal(toDecimal128(sum(toUInt128(free_slice_ms)), 0), hour_ms, 9) AS free_hours,
        divideDecimal(toDecimal128(sum(toUInt128(stranded_slice_ms)), 0), hour_ms, 9) AS stranded_hours,
        divideDecimal(toDecimal128(sum(toUInt128(unhealthy_slice_ms)), 0), hour_ms, 9) AS unhealthy_hours,
        divideDecimal(toDecimal128(sum(toUInt128(unobserved_slice_ms)), 0), hour_ms, 9) AS unobserved_hours,
        toDecimal128(sum(toInt128(energy_mj)), 0) AS mj
    FROM usage
    WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')} AND gpu_slices > 0
        AND ({tenant:String} = '' OR kind = 'owner' AND tenant = {tenant:String})
    GROUP BY by_values, gpu_slices
)
GROUP BY by_values
HAVING (multiIf({group:String} IN ('hours', 'models'), toDecimal128(1, 9), {group:String} = 'waste', sum(idle_hours),
    sum(active_hours) + sum(idle_hours) + sum(unproven_hours)) AS most) > 0
ORDER BY if({group:String} IN ('hours', 'models'), toDecimal128(1, 9), most) DESC, by_values
LIMIT if({group:String} IN ('hours', 'models'), 1000000, 10)
