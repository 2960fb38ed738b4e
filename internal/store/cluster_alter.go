package store

import (
	"context"
	"fmt"
	"regexp"
)

const selectDistributed = "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = " +
	"{table:String} AND engine = 'Distributed'"

// distributedOver captures 1 the cluster, 2 the local table.
var distributedOver = regexp.MustCompile(`^Distributed\('([^'\\]+)', '[^'\\]+', '(\w+)'`)

// Alter runs commands of ALTER TABLE, such as "DROP PARTITION {week:String}" or "DELETE WHERE …". A Distributed table
// accepts none, so they run on the local tables of every server. commands must be a constant with parameters.
func (db *DB) Alter(ctx context.Context, table, commands string, args ...any) error {
	if !identifier.MatchString(table) {
		return fmt.Errorf("alter table %q: not the name of a table", table)
	}
	under, err := db.distributed(ctx, table)
	if err != nil {
		return fmt.Errorf("alter table %s: %w", table, err)
	}
	target := table
	if under.cluster != "" {
		target = under.local + " ON CLUSTER '" + under.cluster + "'"
	}
	return wrap("alter table "+table, db.conn.Exec(ctx, "ALTER TABLE "+target+" "+commands, args...))
}

// under is the cluster and local table of a Distributed table; zero for any other table.
type under struct{ cluster, local string }

func (db *DB) distributed(ctx context.Context, table string) (under, error) {
	var spread []struct {
		Engine string `ch:"engine_full"`
	}
	if err := db.Select(ctx, &spread, selectDistributed, Named("table", table)); err != nil || len(spread) == 0 {
		return under{}, err
	}
	return parseDistributed(spread[0].Engine)
}

func parseDistributed(engine string) (under, error) {
	m := distributedOver.FindStringSubmatch(engine)
	if m == nil || !validCluster.MatchString(m[1]) {
		return under{}, fmt.Errorf("the table's engine is %q, want Distributed('cluster', 'database', 'table', …)", engine)
	}
	return under{m[1], m[2]}, nil
}
