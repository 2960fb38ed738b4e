package analyzer_test

import (
	"testing"
	"time"

	"github.com/gputally/gputally/internal/store"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// patternSQL writes one GPU's hours, one letter each: a active, i idle, u
// unproven, f free, x unobserved, "." no row. Seven slices, one owner.
const patternSQL = `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, present_ms, until_ms, inputs, version, free, unobserved,
    leaf, profile, profile_slices, owner, tenant, project, user, workload, active, idle, unproven, inferred, work, energy_mj,
    parked, rest_owner, rest_from, rest_ms, rest_slice_ms, rest_grade,
    rest_released)
WITH substring({pattern:String}, toUInt32(number) + 1, 1) AS c, c IN ('a', 'i', 'u') AS held, toUInt64(25200000) AS full
SELECT 'c', toDateTime({start:Int64}, 'UTC') + number * 3600, {gpu:String}, 'n1', 'H100', 7, 3600000, 3600000, 1, {version:UInt64},
    if(c = 'f', full, 0), if(c = 'x', full, 0),
    if(held, ['gpu'], []), if(held, [''], []), if(held, [toUInt16(7)], []), if(held, [toUInt64(1)], []),
    if(held, [{tenant:String}], []), if(held, ['p'], []), if(held, ['ann'], []), if(held, [{workload:String}], []),
    if(held, [if(c = 'a', full, 0)], []), if(held, [if(c = 'i', full, 0)], []), if(held, [if(c = 'u', full, 0)], []),
    if(held, [toUInt64(0)], []), if(held, [toUInt64(0)], []), if(held, [toInt64(0)], []),
    if(held, [toUInt64(0)], []), if(c IN ('i', 'u'), [toUInt16(0)], []), if(c IN ('i', 'u'), [toUInt32(0)], []),
    if(c IN ('i', 'u'), [toUInt32(3600000)], []), if(c IN ('i', 'u'), [full], []),
    if(c IN ('i', 'u'), [toUInt8(if(c = 'i', 3, 1))], []),
    if(c IN ('i', 'u'), [toUInt8(substring({pattern:String}, toUInt32(number) + 2, 1) = 'f')], [])
FROM numbers(length({pattern:String}))
WHERE c != '.'`

type gpu struct {
	uuid, tenant string
	start        time.Time
	pattern      string
	version      uint64 // of the ledger's rows
}

func write(t testing.TB, db *store.DB, g gpu) {
	t.Helper()
	err := db.Exec(t.Context(), patternSQL, store.Named("pattern", g.pattern), store.Named("start", g.start.Unix()),
		store.Named("gpu", g.uuid), store.Named("workload", "train on "+g.uuid), store.Named("tenant", g.tenant), store.Named("version", g.version))
	if err != nil {
		t.Fatal(err)
	}
}

// fleetSQL writes a month of 32 GPUs of three leaves each; every fifth leaf is
// idle in every third hour and the two after it.
const fleetSQL = `
INSERT INTO usage_hourly (cluster, hour, gpu, node, model, slices, present_ms, until_ms, inputs, version, stranded,
    leaf, profile, profile_slices, owner, tenant, project, user, workload, active, idle, unproven, inferred, work, energy_mj,
    parked, rest_owner, rest_from, rest_ms, rest_slice_ms, rest_grade,
    rest_released)
WITH number % 32 AS g, intDiv(number, 32) AS h, g % 5 = 0 AND h % 12 < 3 AS rest
SELECT 'c', toDateTime({start:Int64}, 'UTC') + h * 3600, concat('GPU-', toString(g)), concat('n', toString(intDiv(g, 8))), 'H100', 7, 3600000, 3600000, 1, 1,
    3600000,
    ['gi1', 'gi2', 'gi3'], ['3g.40gb', '2g.20gb', '1g.10gb'], [3, 2, 1], [1, 2, 3], ['ml', 'nlp', 'vision'], ['p', 'p', 'p'],
    ['ann', 'bob', 'eve'], ['train', 'tune', 'notebook'],
    [if(rest, 0, 10800000), 7200000, 3600000], [if(rest, 10800000, 0), 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0],
    [0, 0, 0], if(rest, [0], []), if(rest, [0], []), if(rest, [3600000], []), if(rest, [10800000], []), if(rest, [3], []), if(rest, [0], [])
FROM numbers(32 * 744)`

func writeFleet(t testing.TB, db *store.DB) {
	t.Helper()
	if err := db.Exec(t.Context(), fleetSQL, store.Named("start", monday.Unix())); err != nil {
		t.Fatal(err)
	}
}
