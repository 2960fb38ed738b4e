package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

func TestRenderForACluster(t *testing.T) {
	const sharded = `CREATE TABLE IF NOT EXISTS t
(
    node String COMMENT 'a, (b',
    k UInt8 CODEC(Delta, ZSTD(1)),
    CONSTRAINT c CHECK k > 0 AND node != ')'
)
ENGINE = ReplacingMergeTree(k)
PARTITION BY k
ORDER BY (toStartOfHour(k), node, k);
`
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"by node": {sharded, []string{`CREATE TABLE IF NOT EXISTS t_local ON CLUSTER 'prod'
(
    node String COMMENT 'a, (b',
    k UInt8 CODEC(Delta, ZSTD(1)),
    CONSTRAINT c CHECK k > 0 AND node != ')'
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/t', '{replica}', k)
PARTITION BY k
ORDER BY (toStartOfHour(k), node, k)`, `CREATE TABLE IF NOT EXISTS t ON CLUSTER 'prod'
(
    node String COMMENT 'a, (b',
    k UInt8 CODEC(Delta, ZSTD(1))
)
ENGINE = Distributed('prod', 'led', 't_local', cityHash64(node))`}},
		"by the whole sorting key": {"CREATE TABLE IF NOT EXISTS u (a UInt8, b Date, node String) ENGINE = MergeTree ORDER BY (a, toMonday(b));", []string{
			"CREATE TABLE IF NOT EXISTS u_local ON CLUSTER 'prod'\n(a UInt8, b Date, node String)\nENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/u', '{replica}')\nORDER BY (a, toMonday(b))",
			"CREATE TABLE IF NOT EXISTS u ON CLUSTER 'prod'\n(\n    a UInt8,\n    b Date,\n    node String\n)\nENGINE = Distributed('prod', 'led', 'u_local', cityHash64(a, toMonday(b)))",
		}},
		"columns change in both": {sharded + "ALTER TABLE t MODIFY COLUMN k UInt16 COMMENT 'x, y', ADD INDEX i k TYPE minmax, ADD COLUMN IF NOT EXISTS z UInt8 AFTER k;", []string{
			"ALTER TABLE t_local ON CLUSTER 'prod' MODIFY COLUMN k UInt16 COMMENT 'x, y', ADD INDEX i k TYPE minmax, ADD COLUMN IF NOT EXISTS z UInt8 AFTER k",
			"ALTER TABLE t ON CLUSTER 'prod' MODIFY COLUMN k UInt16 COMMENT 'x, y', ADD COLUMN IF NOT EXISTS z UInt8 AFTER k",
		}},
		"the rest is the local tables'": {sharded + "ALTER TABLE t DROP CONSTRAINT c;", []string{"ALTER TABLE t_local ON CLUSTER 'prod' DROP CONSTRAINT c"}},
		"a view reads the whole table":  {sharded + "CREATE OR REPLACE VIEW v AS SELECT * FROM t FINAL;", []string{"CREATE OR REPLACE VIEW v ON CLUSTER 'prod' AS SELECT * FROM t FINAL"}},
		"rows go through the shards":    {sharded + "INSERT INTO t SELECT * FROM u;", []string{"INSERT INTO t SELECT * FROM u"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := store.RenderFrom(files(map[string]string{"0001_a.sql": c.in}), "prod", "led")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got[max(0, len(got)-len(c.want)):]); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCantBeRenderedIsNamed(t *testing.T) {
	for in, want := range map[string]string{
		"ALTER TABLE nowhere ADD COLUMN x UInt8;":                                                                      "nowhere: no migration before it",
		"OPTIMIZE TABLE t FINAL;":                                                                                      `"OPTIMIZE TABLE t FINAL" is none of`,
		"CREATE TABLE t (x UInt8) ENGINE = MergeTree ORDER BY x;":                                                      "is none of CREATE TABLE IF NOT EXISTS",
		"CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1;":                                                        "MATERIALIZED VIEW",
		"CREATE TABLE IF NOT EXISTS t (x UInt8) ENGINE = Memory;":                                                      "table t: want ENGINE",
		"CREATE TABLE IF NOT EXISTS t (x UInt8 COMMENT '(') ENGINE = MergeTree PRIMARY KEY x;":                         "table t: want ORDER BY",
		"CREATE TABLE IF NOT EXISTS t (x UInt8;":                                                                       "table t: its column list",
		"CREATE TABLE IF NOT EXISTS usage_hourly (hour DateTime, gpu String) ENGINE = MergeTree ORDER BY (hour, cpu);": "sharded by gpu, which is not in its ORDER BY (hour, cpu)",
	} {
		_, err := store.RenderFrom(files(map[string]string{"0001_a.sql": in}), "prod", "led")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "0001_a, statement 1") {
			t.Errorf("%s: error %v, want %q and the place in it", in, err, want)
		}
	}
	for _, name := range []string{"", "a b", "it's", "{x", "-a"} {
		if _, err := store.RenderFrom(files(map[string]string{"0001_a.sql": tableA}), name, "led"); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("cluster %q: error %v, want its name", name, err)
		}
	}
	if _, err := store.Statements("le d", "{cluster}"); err == nil || !strings.Contains(err.Error(), `"le d"`) {
		t.Errorf("database: error %v, want its name", err)
	}
}

func TestAlterNamesEveryServersTable(t *testing.T) {
	got, err := store.EveryServer("Distributed('prod', 'led', 'holds_local', cityHash64(node))")
	if err != nil || got != "prod.holds_local" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, engine := range []string{"Distributed(`a`)", "ReplacingMergeTree ORDER BY x", `Distributed('p\' DROP', 'led', 'x')`} {
		if got, err := store.EveryServer(engine); err == nil || !strings.Contains(err.Error(), "its engine is") {
			t.Errorf("%s: %q, %v; want an error that shows it", engine, got, err)
		}
	}
	db := storetest.Open(t)
	const insert = "INSERT INTO raw_weeks (week) SELECT arrayJoin([toDate('2026-11-16'), toDate('2026-11-09')])"
	if err := db.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	if err := db.Alter(t.Context(), "raw_weeks", "DELETE WHERE week = {week:Date} SETTINGS mutations_sync = 2", store.Named("week", "2026-11-09")); err != nil {
		t.Fatal(err)
	}
	var weeks []struct {
		Week string `ch:"week"`
	}
	if err := db.Select(t.Context(), &weeks, "SELECT toString(week) AS week FROM raw_weeks"); err != nil || len(weeks) != 1 || weeks[0].Week != "2026-11-16" {
		t.Errorf("rows left: %v, %v; want that of 2026-11-16", weeks, err)
	}
	if err := db.Alter(t.Context(), "a; b", "DELETE WHERE 1"); err == nil || !strings.Contains(err.Error(), `"a; b"`) {
		t.Errorf("a name that is none: %v", err)
	}
}

func TestEveryTableHasItsShards(t *testing.T) {
	all, err := store.Statements("led", "prod")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, s := range all {
		if _, rest, ok := strings.Cut(s, "Distributed('prod', 'led', '"); ok {
			local, key, _ := strings.Cut(rest, "_local', ")
			keys[local] = strings.TrimSuffix(key, ")")
		}
		if !strings.Contains(s, " ON CLUSTER 'prod'") {
			t.Errorf("it is for one server only: %s", s)
		}
	}
	for table, want := range map[string]string{
		"batches": "cityHash64(node)", "holds": "cityHash64(node)", "samples": "cityHash64(node)", "events": "cityHash64(node)",
		"sightings": "cityHash64(node)", "usage_hourly": "cityHash64(gpu)", "owners": "cityHash64(id)", "leaves": "cityHash64(id)",
		"epochs": "cityHash64(epoch)", "anomalies": "cityHash64(start, id)", "schema_migrations": "cityHash64(version)",
		"late_unprocessed": "cityHash64(topic, partition, offset)", "decisions": "cityHash64(offset)", "invoices": "cityHash64(period, tenant, revision)",
	} {
		if keys[table] != want {
			t.Errorf("%s is sharded by %q, want %q", table, keys[table], want)
		}
	}
	single, err := store.Statements("led", "")
	if err != nil || len(single) >= len(all) || slices.ContainsFunc(single, func(s string) bool { return strings.Contains(s, "CLUSTER") }) {
		t.Errorf("%d statements without a cluster, %d with one, %v", len(single), len(all), err)
	}
}
