package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The migrations say what one server has. On a cluster each table T of theirs
// becomes T_local on every server, replicated inside its shard, and T,
// Distributed over them: statements that read and write T stay as they are.
//
// FINAL replaces rows within a shard, as merges do, so that all versions of a
// row have to meet on one: the sharding key is a function of the sorting key.
// A table whose sorting key has the node is sharded by node, as Kafka is. Any
// other is sharded by its whole sorting key, the small ones (owners, leaves,
// clusters, epochs) included: no statement joins them to others on a shard, so
// that copies on all shards would save nothing, and a copy may lag behind the
// replica that was written to.
//
// shardedBy has the exceptions.
var shardedBy = map[string]string{
	// A GPU's whole history on one shard. By node its hour would stand on two
	// when it moves, since the row names the last node of the hour only (R14).
	"usage_hourly": "gpu",
}

const (
	nodeColumn  = "node"
	localSuffix = "_local"
)

// validCluster is a name in remote_servers, or a macro that holds one.
var validCluster = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*|\{[A-Za-z_][A-Za-z0-9_]*\})$`)

// cluster renders statements of the migrations for a cluster. It learns the
// tables as it meets them, so that it has to see all statements in order.
type cluster struct {
	name     string
	database string
	tables   map[string]bool // those it has met
}

func newCluster(name, database string) (*cluster, error) {
	if !validCluster.MatchString(name) {
		return nil, fmt.Errorf("cluster %q: want the name of a cluster of remote_servers (letters, digits, '_', '-', '.'), or a macro such as {cluster}", name)
	}
	if !identifier.MatchString(database) {
		return nil, fmt.Errorf("cluster %s: database %q is not an identifier (letters, digits, underscore)", name, database)
	}
	return &cluster{name: name, database: database, tables: map[string]bool{}}, nil
}

// onCluster needs no escaping: see validCluster.
func (c *cluster) onCluster() string { return " ON CLUSTER '" + c.name + "'" }

func (c *cluster) createDatabase() string {
	return "CREATE DATABASE IF NOT EXISTS " + c.database + c.onCluster()
}

// renderAll gives the same migrations with this cluster's statements.
func (c *cluster) renderAll(known []migration) ([]migration, error) {
	rendered := make([]migration, len(known))
	for i, m := range known {
		rendered[i] = m
		rendered[i].statements = nil
		for n, statement := range m.statements {
			out, err := c.render(statement)
			if err != nil {
				return nil, fmt.Errorf("render migration %s, statement %d, for cluster %s: %w", m.name, n+1, c.name, err)
			}
			rendered[i].statements = append(rendered[i].statements, out...)
		}
	}
	return rendered, nil
}

var (
	startsTable  = regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS (\w+)\s*\(`)
	startsView   = regexp.MustCompile(`^(CREATE VIEW IF NOT EXISTS|CREATE OR REPLACE VIEW|DROP VIEW IF EXISTS) (\w+)`)
	startsAlter  = regexp.MustCompile(`^ALTER TABLE (\w+)\s+`)
	startsInsert = regexp.MustCompile(`^INSERT INTO \w+`)
)

func (c *cluster) render(statement string) ([]string, error) {
	if m := startsTable.FindStringSubmatch(statement); m != nil {
		return c.renderTable(statement, m[1])
	}
	if m := startsAlter.FindStringSubmatch(statement); m != nil {
		return c.renderAlter(m[1], statement[len(m[0]):])
	}
	if m := startsView.FindStringSubmatch(statement); m != nil {
		return []string{m[1] + " " + m[2] + c.onCluster() + statement[len(m[0]):]}, nil
	}
	if startsInsert.MatchString(statement) {
		return []string{statement}, nil // by way of the Distributed tables
	}
	return nil, fmt.Errorf("%q is none of CREATE TABLE IF NOT EXISTS name (…), CREATE VIEW IF NOT EXISTS, CREATE OR REPLACE VIEW, DROP VIEW IF EXISTS, ALTER TABLE, INSERT INTO",
		firstLine(statement))
}

// engineClause: 1 the engine, 2 its arguments, 3 what follows.
var engineClause = regexp.MustCompile(`(?s)^\s*ENGINE = (\w*MergeTree)(?:\(([^()]*)\))?\s+(.*)$`)

func (c *cluster) renderTable(statement, table string) ([]string, error) {
	open := strings.IndexByte(statement, '(')
	end := closing(statement, open)
	if end < 0 {
		return nil, fmt.Errorf("table %s: its column list doesn't end", table)
	}
	engine := engineClause.FindStringSubmatch(statement[end+1:])
	if engine == nil {
		return nil, fmt.Errorf("table %s: want ENGINE = …MergeTree and ORDER BY after its columns", table)
	}
	key, err := shardingKey(table, sortingKey(engine[3]))
	if err != nil {
		return nil, err
	}
	c.tables[table] = true
	local := table + localSuffix
	arguments := "'/clickhouse/tables/{shard}/{database}/" + table + "', '{replica}'"
	if engine[2] != "" {
		arguments += ", " + engine[2]
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + local + c.onCluster() + "\n" + statement[open:end+1] +
			"\nENGINE = Replicated" + engine[1] + "(" + arguments + ")\n" + engine[3],
		"CREATE TABLE IF NOT EXISTS " + table + c.onCluster() + "\n(\n    " +
			strings.Join(columnsOnly(splitList(statement[open+1:end])), ",\n    ") +
			"\n)\nENGINE = Distributed('" + c.name + "', '" + c.database + "', '" + local + "', " + key + ")",
	}, nil
}

var notColumn = regexp.MustCompile(`^(CONSTRAINT|INDEX|PROJECTION)\b`)

// columnsOnly leaves out what a Distributed table could never change again by
// ALTER. The local tables have it, and refuse rows all the same.
func columnsOnly(elements []string) []string {
	return slices.DeleteFunc(elements, func(e string) bool { return notColumn.MatchString(e) })
}

func shardingKey(table string, sorting []string) (string, error) {
	column, named := shardedBy[table]
	switch {
	case len(sorting) == 0:
		return "", fmt.Errorf("table %s: want ORDER BY column or ORDER BY (column, …)", table)
	case named && !slices.Contains(sorting, column):
		return "", fmt.Errorf("table %s: it is sharded by %s, which is not in its ORDER BY (%s): versions of a row could stand on two shards",
			table, column, strings.Join(sorting, ", "))
	case named:
		return "cityHash64(" + column + ")", nil
	case slices.Contains(sorting, nodeColumn):
		return "cityHash64(" + nodeColumn + ")", nil
	}
	return "cityHash64(" + strings.Join(sorting, ", ") + ")", nil
}

var orderBy = regexp.MustCompile(`ORDER BY\s+(\(|\w+)`)

// sortingKey gives the expressions of ORDER BY in what follows an engine.
func sortingKey(clauses string) []string {
	at := orderBy.FindStringSubmatchIndex(clauses)
	if at == nil {
		return nil
	}
	if clauses[at[2]:at[3]] != "(" {
		return []string{clauses[at[2]:at[3]]}
	}
	end := closing(clauses, at[2])
	if end < 0 {
		return nil
	}
	return splitList(clauses[at[2]+1 : end])
}

// onDistributed are the commands that a Distributed table takes too; all
// others (indexes, constraints, settings, rows) are the local tables' own.
var onDistributed = regexp.MustCompile(`^(ADD|DROP|MODIFY|RENAME|COMMENT) COLUMN\b`)

// renderAlter changes the local tables before what reads them.
func (c *cluster) renderAlter(table, commands string) ([]string, error) {
	if !c.tables[table] {
		return nil, fmt.Errorf("ALTER TABLE %s: no migration before it makes that table", table)
	}
	rendered := []string{"ALTER TABLE " + table + localSuffix + c.onCluster() + " " + commands}
	var columns []string
	for _, command := range splitList(commands) {
		if onDistributed.MatchString(command) {
			columns = append(columns, command)
		}
	}
	if len(columns) > 0 {
		rendered = append(rendered, "ALTER TABLE "+table+c.onCluster()+" "+strings.Join(columns, ", "))
	}
	return rendered, nil
}

func firstLine(statement string) string {
	line, _, _ := strings.Cut(statement, "\n")
	return line
}

// renderSchema gives the journal of migrations and the migrations themselves.
func (c *cluster) renderSchema(known []migration) (journal []string, rendered []migration, err error) {
	if journal, err = c.render(createMigrations); err != nil {
		return nil, nil, fmt.Errorf("render for cluster %s: %w", c.name, err)
	}
	rendered, err = c.renderAll(known)
	return journal, rendered, err
}

// Statements gives all that Migrate, or MigrateCluster where a cluster is
// named, executes where there is nothing yet, in order; it needs no server. The
// statements after the first are for the database that the first one makes.
func Statements(database, clusterName string) ([]string, error) {
	known, err := loadMigrations(embedded)
	if err != nil {
		return nil, err
	}
	all := []string{"CREATE DATABASE IF NOT EXISTS " + database}
	journal := []string{createMigrations}
	if clusterName != "" {
		c, err := newCluster(clusterName, database)
		if err != nil {
			return nil, err
		}
		all = []string{c.createDatabase()}
		if journal, known, err = c.renderSchema(known); err != nil {
			return nil, err
		}
	}
	all = append(all, journal...)
	for _, m := range known {
		all = append(all, m.statements...)
	}
	return all, nil
}

// MigrateCluster is Migrate for the cluster of that name in the servers'
// remote_servers: the same tables, spread over its shards and replicated in
// each. The servers need the macros {shard} and {replica} and a Keeper. Run one
// at a time.
func (db *DB) MigrateCluster(ctx context.Context, name string) (applied int, err error) {
	known, err := loadMigrations(embedded)
	if err != nil {
		return 0, err
	}
	c, err := newCluster(name, db.Database())
	if err != nil {
		return 0, err
	}
	return db.migrate(ctx, known, c)
}
