SELECT id, toString(kind), toString(cluster), toString(tenant), toString(project), workload, toString(node),
    toString(gpu), toString(leaf), start, end, toString(wasted_gpu_hours), toString(wasted_cost), toString(currency), evidence,
    toString(user), toString(cause), toString(grade), open = 1, length(leaves),
    toString(severity), alerted, parent, observed, expected, score
FROM anomalies FINAL
WHERE deleted = 0 AND start < {to:DateTime('UTC')} AND end > {from:DateTime('UTC')}
    AND ({kind:String} = '' OR kind = {kind:String}) AND ({tenant:String} = '' OR tenant = {tenant:String})
    AND ({state:String} = '' OR open = ({state:String} = 'open'))
    AND ({paged:UInt8} = 0 OR (start, id) > ({after_start:DateTime('UTC')}, {after_id:String}))
ORDER BY start, id
LIMIT {rows:UInt64}
