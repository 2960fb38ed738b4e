package store_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/store/zookeepertest"
)

const clusterXML = `
    <zookeeper><node><host>127.0.0.1</host><port>%d</port></node></zookeeper>
    <macros><shard>%s</shard><replica>%s</replica></macros>
    <remote_servers><prod><shard><internal_replication>true</internal_replication>
        <replica><host>127.0.0.1</host><port>9000</port></replica>
    </shard></prod></remote_servers>
`

const onProd = " ON CLUSTER 'prod'"

// TestClusterStatementsOnAZooKeeper executes the statements on two servers of
// two shards. The library runs no replication, so that its replicas are
// read-only: they are made and registered in ZooKeeper, which is looked at, but
// take neither rows nor ALTERs: those are executed by the tests below. It
// refuses ON CLUSTER as well, so that the whole statement is only parsed.
func TestClusterStatementsOnAZooKeeper(t *testing.T) {
	port := zookeepertest.Start(t)
	statements, err := store.Statements("led", "prod")
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]map[string]bool{}
	for _, shard := range []string{"1", "2"} {
		socket := storetest.Separate(t, fmt.Sprintf(clusterXML, port, shard, "a"))
		db := storetest.Connect(t, socket, "led")
		execute(t, storetest.Connect(t, socket, "default"), statements[0])
		tables := 0
		for _, s := range statements[1:] {
			var parsed string
			if err := db.QueryRow(t.Context(), "SELECT formatQuery({s:String})",
				store.Named("s", s)).Scan(&parsed); err != nil || !strings.Contains(parsed, "ON CLUSTER prod") {
				t.Fatalf("it doesn't parse: %v: %s\n%s", err, s, parsed)
			}
			if strings.Contains(s, "ENGINE = Replicated") {
				tables++
			}
			if !alterLocal.MatchString(s) {
				execute(t, db, s)
			}
		}
		paths[shard] = replicas(t, db)
		if len(paths[shard]) != tables {
			t.Errorf("shard %s has %d replicas for %d tables", shard, len(paths[shard]), tables)
		}
		for path := range paths[shard] {
			if !strings.HasPrefix(path, "/clickhouse/tables/"+shard+"/led/") || strings.HasSuffix(path, "_local") {
				t.Errorf("shard %s: a table is at %s", shard, path)
			}
		}
	}
}

func replicas(t *testing.T, db *store.DB) map[string]bool {
	t.Helper()
	var rows []struct {
		Path    string `ch:"zookeeper_path"`
		Replica string `ch:"replica_name"`
		Total   uint32 `ch:"total_replicas"`
		Error   string `ch:"zookeeper_exception"`
	}
	const sql = "SELECT zookeeper_path, replica_name, total_replicas, zookeeper_exception FROM system.replicas WHERE " +
		"database = currentDatabase()"
	if err := db.Select(t.Context(), &rows, sql); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, r := range rows {
		if r.Replica != "a" || r.Total != 1 || r.Error != "" {
			t.Errorf("replica %+v, want a of 1, registered", r)
		}
		paths[r.Path] = true
	}
	return paths
}

func execute(t *testing.T, db *store.DB, statement string) {
	t.Helper()
	if err := db.Exec(t.Context(), strings.Replace(statement, onProd, "", 1)); err != nil {
		t.Fatalf("%v:\n%s", err, statement)
	}
}

var alterLocal = regexp.MustCompile(`^ALTER TABLE \w+_local `)

const gpuHour = `INSERT INTO usage_hourly (cluster, hour, gpu, node, slices, present_ms, free, version)
SELECT 'c', toDateTime('2026-11-16 10:00:00', 'UTC') + INTERVAL number HOUR, {gpu:String}, {node:String}, 1, 3600000, 3600000, {version:UInt64} FROM numbers({hours:UInt32})`

// TestClusterTablesHoldTheLedger: statements that were written for one server.
func TestClusterTablesHoldTheLedger(t *testing.T) {
	db := storetest.Spread(t)
	for version, node := range []string{"n1", "n2", "n2"} {
		err := db.Exec(t.Context(), gpuHour, store.Named("gpu", "g"), store.Named("node", node),
			store.Named("version", uint64(version)), store.Named("hours", uint32(3)))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct {
		want uint64
		sql  string
	}{
		{9, "SELECT count() FROM usage_hourly"},
		{3, "SELECT count() FROM usage_hourly FINAL"},
		{9, "SELECT count() FROM usage_hourly_local"},
		{3 * 3600000, "SELECT sum(free_slice_ms) FROM usage WHERE node = 'n2'"},
		{3, "SELECT count() FROM usage_hourly FINAL WHERE _partition_id NOT IN {known:Array(String)}"},
		{1, "SELECT count() FROM usage_hourly FINAL WHERE (gpu, hour) IN (SELECT gpu, max(hour) FROM usage_hourly FINAL " +
			"GROUP BY gpu)"},
		{9, "SELECT count() FROM usage_hourly AS a LEFT JOIN (SELECT DISTINCT gpu FROM usage_hourly) AS b USING (gpu)"},
	} {
		sql, want := q.sql, q.want
		var got uint64
		if err := db.QueryRow(t.Context(), sql, store.Named("known", []string{"202610"})).Scan(&got); err != nil ||
			got != want {
			t.Errorf("%s: %d, %v; want %d", sql, got, err, want)
		}
	}
	err := db.Exec(t.Context(), "INSERT INTO usage_hourly (gpu, slices, present_ms, free) SELECT 'g', 1, 3600000, 1")
	if code, ok := store.Code(err); !ok || code != store.CodeConstraintViolation {
		t.Errorf("a row that doesn't conserve capacity: %v, want code %d", err, store.CodeConstraintViolation)
	}
	if applied, err := db.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "migrate --cluster") ||
		applied != 0 {
		t.Errorf("a service brings a cluster's tables up to date: %d, %v; want to be sent to migrate --cluster", applied, err)
	}
}

// Distributed takes the shard of weight 1 by the key modulo the shards.
const (
	makeShards = `CREATE TABLE shards (cluster String, hour DateTime('UTC'), gpu String, node String, version UInt64, shard UInt8)
ENGINE = ReplacingMergeTree(version) PARTITION BY shard ORDER BY (cluster, hour, gpu)`
	toShards = `INSERT INTO shards SELECT cluster, hour, gpu, node, version, if({by:String} = 'node', cityHash64(node), cityHash64(gpu)) % 2 FROM usage_hourly`
	// Partitions for shards: what isn't merged across them is what FINAL sees of each.
	countShards = `SELECT uniqExact(shard), count() FROM shards FINAL SETTINGS do_not_merge_across_partitions_select_final = 1`
)

// TestAGPUHourIsReplacedOnItsShard: of a GPU that moved between nodes one row
// is left. By node, as the raw is sharded, some would stand there twice.
func TestAGPUHourIsReplacedOnItsShard(t *testing.T) {
	const gpus = 12
	for _, by := range []string{"gpu", "node"} {
		db := storetest.Spread(t)
		for gpu := range gpus {
			for version := range 2 {
				err := db.Exec(t.Context(), gpuHour, store.Named("gpu", fmt.Sprint("gpu-", gpu)),
					store.Named("node", fmt.Sprint("n", gpu+version)),
					store.Named("version", uint64(version)), store.Named("hours", uint32(1)))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, sql := range []string{makeShards, toShards} {
			if err := db.Exec(t.Context(), sql, store.Named("by", by)); err != nil {
				t.Fatal(err)
			}
		}
		var shards, rows uint64
		if err := db.QueryRow(t.Context(), countShards).Scan(&shards, &rows); err != nil || shards != 2 ||
			(rows == gpus) != (by == "gpu") {
			t.Errorf("by %s: %d rows of %d GPU-hours on %d shards, %v", by, rows, gpus, shards, err)
		}
	}
}

func TestPartitionStatesOfACluster(t *testing.T) {
	for name, db := range map[string]*store.DB{"one server": storetest.Open(t), "cluster": storetest.Spread(t)} {
		insert := func(gpu string) map[string]string {
			t.Helper()
			err := db.Exec(t.Context(), gpuHour, store.Named("gpu", gpu), store.Named("node", "n"),
				store.Named("version", uint64(1)), store.Named("hours", uint32(1)))
			if err != nil {
				t.Fatal(err)
			}
			states, err := db.PartitionStates(t.Context(), "usage_hourly")
			if err != nil {
				t.Fatal(err)
			}
			return states
		}
		first, second := insert("a"), insert("b")
		if len(first) != 1 || len(first["202611"]) != 16 || len(second) != 1 || first["202611"] == second["202611"] {
			t.Errorf("%s: states %v, then %v; want one partition, another state", name, first, second)
		}
	}
}
