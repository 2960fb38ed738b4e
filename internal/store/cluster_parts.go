package store

import (
	"context"
	"fmt"
)

// Parts are immutable, so an unchanged set of parts has unchanged rows. On a cluster the parts of one replica of each
// shard are read: the first that is available, which all queries use.
const (
	selectParts = `
SELECT partition_id, lower(hex(groupBitXor(cityHash64(name, hash_of_all_files)))) AS state
FROM system.parts
WHERE database = currentDatabase() AND table = {table:String} AND active
GROUP BY partition_id`

	selectClusterParts = `
SELECT partition_id, lower(hex(groupBitXor(cityHash64(_shard_num, name, hash_of_all_files)))) AS state
FROM cluster({cluster:String}, system.parts)
WHERE database = {database:String} AND table = {table:String} AND active
GROUP BY partition_id`
)

// PartitionStates returns, by partition id, a value that changes whenever the rows of a table's partition change. On
// a cluster it covers all shards.
func (db *DB) PartitionStates(ctx context.Context, table string) (map[string]string, error) {
	under, err := db.distributed(ctx, table)
	if err != nil {
		return nil, fmt.Errorf("read partitions of %s: %w", table, err)
	}
	sql := selectParts
	if under.cluster != "" {
		sql, table = selectClusterParts, under.local
	}
	var rows []struct {
		Partition string `ch:"partition_id"`
		State     string `ch:"state"`
	}
	err = db.Select(ctx, &rows, sql, Named("cluster", under.cluster), Named("database", db.Database()),
		Named("table", table))
	if err != nil {
		return nil, fmt.Errorf("read partitions of %s: %w", table, err)
	}
	states := make(map[string]string, len(rows))
	for _, r := range rows {
		states[r.Partition] = r.State
	}
	return states, nil
}
