package store

import (
	"context"
	"fmt"
	"regexp"
)

const selectDistributed = "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {alter_table:String} AND engine = 'Distributed'"

// distributedOver: 1 the cluster, 2 the table on each of its servers.
var distributedOver = regexp.MustCompile(`^Distributed\('([^'\\]+)', '[^'\\]+', '(\w+)'`)

// Alter runs commands of ALTER TABLE on a table's own rows and parts, such as
// "DROP PARTITION {week:String}" or "DELETE WHERE …": on every server's part of
// it where it is spread over a cluster, since a Distributed table takes none.
// The commands are a constant with parameters, as every statement.
func (db *DB) Alter(ctx context.Context, table, commands string, args ...any) error {
	if !identifier.MatchString(table) {
		return fmt.Errorf("alter table %q: not the name of a table", table)
	}
	var spread []struct {
		Engine string `ch:"engine_full"`
	}
	if err := db.Select(ctx, &spread, selectDistributed, Named("alter_table", table)); err != nil {
		return fmt.Errorf("alter table %s: %w", table, err)
	}
	target := table
	if len(spread) > 0 {
		local, err := everyServer(spread[0].Engine)
		if err != nil {
			return fmt.Errorf("alter table %s: %w", table, err)
		}
		target = local
	}
	return wrap("alter table "+table, db.conn.Exec(ctx, "ALTER TABLE "+target+" "+commands, args...))
}

// everyServer names the table under a Distributed one, on all its servers.
func everyServer(engine string) (string, error) {
	m := distributedOver.FindStringSubmatch(engine)
	if m == nil || !validCluster.MatchString(m[1]) {
		return "", fmt.Errorf("its engine is %q, want Distributed('cluster', 'database', 'table', …)", engine)
	}
	return m[2] + " ON CLUSTER '" + m[1] + "'", nil
}
