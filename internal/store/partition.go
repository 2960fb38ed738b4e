package store

import (
	"context"
	"fmt"
	"regexp"
)

const (
	selectDistributed = "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {table:String} AND engine = 'Distributed'"

	dropPartition = "ALTER TABLE {table:Identifier} DROP PARTITION {partition:String}"
)

// distributedOver: 1 the cluster, 2 the table on each of its servers.
var distributedOver = regexp.MustCompile(`^Distributed\('([^'\\]+)', '[^'\\]+', '(\w+)'`)

// DropPartition drops one partition of a table, on all servers where the
// table is spread over a cluster; a partition that isn't there is no error.
// The partition is the value of the partition key, such as "2026-11-16".
func (db *DB) DropPartition(ctx context.Context, table, partition string) error {
	var spread []struct {
		Engine string `ch:"engine_full"`
	}
	if err := db.Select(ctx, &spread, selectDistributed, Named("table", table)); err != nil {
		return fmt.Errorf("drop partition %s of %s: %w", partition, table, err)
	}
	statement := dropPartition
	if len(spread) > 0 {
		m := distributedOver.FindStringSubmatch(spread[0].Engine)
		if m == nil || !validCluster.MatchString(m[1]) {
			return fmt.Errorf("drop partition %s of %s: its engine is %q, want Distributed('cluster', 'database', 'table', …)", partition, table, spread[0].Engine)
		}
		table = m[2]
		statement = "ALTER TABLE {table:Identifier} ON CLUSTER '" + m[1] + "' DROP PARTITION {partition:String}"
	}
	err := db.Exec(ctx, statement, Named("table", table), Named("partition", partition))
	if err != nil {
		return fmt.Errorf("drop partition %s of %s: %w", partition, table, err)
	}
	return nil
}
