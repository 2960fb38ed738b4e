package storetest

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/gputally/gputally/internal/store"
)

// The tables and views of a database, and whether a mutation is still running on them. A table's definition contains
// its columns, keys and settings.
const selectTables = `SELECT name, create_table_query AS definition, ifNull(total_rows, 0) AS rows,
    name IN (SELECT table FROM system.mutations WHERE database = {database:String} AND NOT is_done) AS mutating
FROM system.tables
WHERE database = {database:String} AND name != 'schema_migrations'`

const truncateTable = "TRUNCATE TABLE {table:Identifier} SYNC"

// schema has each table's and view's definition by its name.
type schema map[string]string

// leftDatabase is a migrated database that a test no longer uses.
type leftDatabase struct {
	database string
	tables   schema
}

// left are the databases that no test uses at present. Migrating a new one takes forty statements; emptying the few
// tables that a test wrote takes a tenth of that time.
var left struct {
	sync.Mutex
	databases []leftDatabase
}

func takeLeft() (leftDatabase, bool) {
	left.Lock()
	defer left.Unlock()
	n := len(left.databases)
	if n == 0 {
		return leftDatabase{}, false
	}
	taken := left.databases[n-1]
	left.databases = left.databases[:n-1]
	return taken, true
}

// giveBack empties the database for the next test. If the test has changed the schema, or a mutation is still
// running, it drops the database instead.
func giveBack(t testing.TB, db *store.DB, migrated schema) {
	t.Helper()
	ctx := context.Background() // the test's own context has ended
	written, unchanged, err := compare(ctx, db, migrated)
	for _, name := range written {
		if err == nil && unchanged {
			err = db.Exec(ctx, truncateTable, store.Named("table", name))
		}
	}
	if err != nil || !unchanged {
		drop(t, db)
		return
	}
	left.Lock()
	defer left.Unlock()
	left.databases = append(left.databases, leftDatabase{db.Database(), migrated})
}

// compare returns the tables that have rows, and whether the schema is the migrated one and no mutation is running.
func compare(ctx context.Context, db *store.DB, migrated schema) (written []string, unchanged bool, err error) {
	rows, err := readTables(ctx, db)
	if err != nil {
		return nil, false, err
	}
	unchanged = maps.Equal(schemaOf(rows), migrated)
	for _, row := range rows {
		if row.Rows > 0 {
			written = append(written, row.Name)
		}
		unchanged = unchanged && !row.Mutating
	}
	return written, unchanged, nil
}

type tableRow struct {
	Name       string `ch:"name"`
	Definition string `ch:"definition"`
	Rows       uint64 `ch:"rows"`
	Mutating   bool   `ch:"mutating"`
}

func readTables(ctx context.Context, db *store.DB) (rows []tableRow, err error) {
	err = db.Select(ctx, &rows, selectTables, store.Named("database", db.Database()))
	return rows, err
}

func schemaOf(rows []tableRow) schema {
	tables := schema{}
	for _, row := range rows {
		tables[row.Name] = row.Definition
	}
	return tables
}

func tablesOf(ctx context.Context, db *store.DB) (schema, error) {
	rows, err := readTables(ctx, db)
	return schemaOf(rows), err
}
