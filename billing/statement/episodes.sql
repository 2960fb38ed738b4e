SELECT toString(kind), toString(tenant), workload, start, end, toString(currency),
    sum(greatest(length(leaves), 1)) AS leaf_count, sum(wasted_gpu_hours) AS hours, sum(wasted_cost) AS cost,
    (min((toString(node), toString(gpu), toString(leaf), evidence)) AS least).1, least.2, least.3, least.4,
    arraySort(groupArray(id)), toString(project)
FROM anomalies FINAL
WHERE deleted = 0 AND grade NOT IN ('suspected', 'none') AND parent = '' AND start < {to:DateTime('UTC')} AND end > {from:DateTime('UTC')}
    AND ({tenant:String} = '' OR tenant = {tenant:String})
GROUP BY kind, tenant, project, workload, start, end, currency
ORDER BY cost DESC, hours DESC, start, least
LIMIT 8
