package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/gputally/gputally/internal/tables"
)

// validCluster is a name in remote_servers, or a macro that holds one.
var validCluster = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*|\{[A-Za-z_][A-Za-z0-9_]*\})$`)

// cluster is a cluster of servers, and the database on them. Both names are
// checked, so that statements need not escape them.
type cluster struct{ name, database string }

func newCluster(name, database string) (*cluster, error) {
	if !validCluster.MatchString(name) {
		return nil, fmt.Errorf(
			"cluster %q: want the name of a cluster of remote_servers (letters, digits, '_', '-', '.'), or a macro such as "+
				"{cluster}", name)
	}
	if !identifier.MatchString(database) {
		return nil, fmt.Errorf("cluster %s: database %q is not an identifier (letters, digits, underscore)", name, database)
	}
	return &cluster{name, database}, nil
}

func (c *cluster) createDatabase() string {
	return "CREATE DATABASE IF NOT EXISTS " + c.database + " ON CLUSTER '" + c.name + "'"
}

// fillAll puts the names into the statements of migrations.
func (c *cluster) fillAll(known []migration) []migration {
	names := strings.NewReplacer("<cluster>", c.name, "<database>", c.database)
	filled := make([]migration, len(known))
	for i, m := range known {
		filled[i] = m
		filled[i].statements = make([]string, len(m.statements))
		for n, statement := range m.statements {
			filled[i].statements[n] = names.Replace(statement)
		}
	}
	return filled
}

// Statements gives all that Migrate, or MigrateCluster where a cluster is
// named, executes where there is nothing yet, in order; it needs no server. The
// statements after the first are for the database that the first one makes.
func Statements(database, clusterName string) ([]string, error) {
	dir, all, journal := onOneServerDir, "CREATE DATABASE IF NOT EXISTS "+database, []string{tables.Migrations.Create()}
	fill := func(known []migration) []migration { return known }
	if clusterName != "" {
		c, err := newCluster(clusterName, database)
		if err != nil {
			return nil, err
		}
		dir, all, journal, fill = onClusterDir, c.createDatabase(), tables.Migrations.CreateOn(c.name, c.database), c.fillAll
	}
	known, err := loadMigrations(embedded, dir)
	if err != nil {
		return nil, err
	}
	out := append([]string{all}, journal...)
	for _, m := range fill(known) {
		out = append(out, m.statements...)
	}
	return out, nil
}

// MigrateCluster is Migrate for the cluster of that name in the servers'
// remote_servers: the same tables, spread over its shards and replicated in
// each. The servers need the macros {shard} and {replica} and a Keeper. Run one
// at a time.
func (db *DB) MigrateCluster(ctx context.Context, name string) (applied int, err error) {
	known, err := loadMigrations(embedded, onClusterDir)
	if err != nil {
		return 0, err
	}
	c, err := newCluster(name, db.Database())
	if err != nil {
		return 0, err
	}
	return db.migrate(ctx, known, c)
}
