package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/gputally/gputally/internal/tables"
)

// validCluster matches a name of remote_servers, or a macro that contains one.
var validCluster = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*|\{[A-Za-z_][A-Za-z0-9_]*\})$`)

// cluster is the name of a cluster of servers and of the database on them. Both are validated, so that statements
// need not escape them.
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

// fillAll inserts the names into the statements of migrations.
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

// Statements returns all statements that Migrate, or MigrateCluster if a cluster is named, executes for a new
// database, in order; it needs no server. The first creates the database; execute the others in it.
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

// MigrateCluster is Migrate for a cluster of the servers' remote_servers: it creates the same tables, distributed
// over the shards and replicated in each. The servers need the macros {shard} and {replica} and a Keeper. Don't run
// it concurrently.
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
