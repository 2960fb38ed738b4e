SELECT {{if .By}}[{{range $i, $sql := .By}}{{if $i}}, {{end}}{{$sql}}{{end}}]{{else}}emptyArrayString(){{end}} AS by_values,
    {{if .ByKind}}toString(kind){{else}}''{{end}} AS row_kind, gpu_slices,
    sum(toUInt128(active_slice_ms)), sum(toUInt128(idle_slice_ms)), sum(toUInt128(unproven_slice_ms)),
    sum(toUInt128(free_slice_ms)), sum(toUInt128(stranded_slice_ms)), sum(toUInt128(unhealthy_slice_ms)),
    sum(toUInt128(unobserved_slice_ms)), sum(toInt128(energy_mj))
FROM usage
WHERE hour >= {from:DateTime('UTC')} AND hour < {to:DateTime('UTC')}
    AND ({tenant:String} = '' OR kind = 'owner' AND tenant = {tenant:String})
{{- range $name, $sql := .Only}}
    AND {{$sql}} = {only_{{$name}}:String}
{{- end}}
GROUP BY by_values, row_kind, gpu_slices
-- Values are compared in hexadecimal: they may hold anything.
HAVING {paged:UInt8} = 0
    OR (by_values, row_kind) > (arrayMap(x -> unhex(x), splitByChar(',', {after:String})), {after_kind:String})
ORDER BY by_values, row_kind, gpu_slices
