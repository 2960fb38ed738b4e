package store

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/internal/tables"
)

// Each migration is two files of the same name: in migrations for a single server, in migrations/cluster for a
// cluster, with the placeholders <cluster> and <database>.
//
//go:embed migrations
var embedded embed.FS

const (
	onOneServerDir = "migrations"
	onClusterDir   = "migrations/cluster"
)

const (
	createDatabase = "CREATE DATABASE IF NOT EXISTS {database:Identifier}"

	selectJournalTables = `SELECT name FROM system.tables
WHERE database = {database:String} AND name IN ('schema_migrations', 'schema_migrations_local') ORDER BY name`

	selectMigrations = "SELECT version, name, sha256 FROM schema_migrations FINAL ORDER BY version"

	recordMigration = `INSERT INTO schema_migrations (version, name, sha256, applied_at)
SELECT {version:UInt32}, {name:String}, {sha256:String}, fromUnixTimestamp64Milli({applied_ms:Int64}, 'UTC')`
)

// migration is one file, named like 0001_raw.sql.
type migration struct {
	version    uint32
	name       string
	sha256     string
	statements []string
}

// Migrate creates the database and brings its tables up to this program's schema. Every statement has IF NOT EXISTS,
// and a file is recorded after its last statement, so that the next run completes an interrupted one. Migrate refuses
// a schema that is newer, and a file that changed after it was applied.
func (db *DB) Migrate(ctx context.Context) (applied int, err error) {
	known, err := loadMigrations(embedded, onOneServerDir)
	if err != nil {
		return 0, err
	}
	return db.migrate(ctx, known, nil)
}

// migrate is for a single server if c is nil.
func (db *DB) migrate(ctx context.Context, known []migration, c *cluster) (applied int, err error) {
	journal, database := []string{tables.Migrations.Create()}, createDatabase
	if c != nil {
		journal, database, known = tables.Migrations.CreateOn(c.name, c.database), c.createDatabase(), c.fillAll(known)
	}
	spread, err := db.createDatabase(ctx, database, c)
	if err != nil {
		return 0, fmt.Errorf("migrate %s: %w", db.Database(), err)
	}
	if spread == nowhere || c != nil {
		for _, statement := range journal {
			if err := db.Exec(ctx, statement); err != nil {
				return 0, fmt.Errorf("migrate %s: %w", db.Database(), err)
			}
		}
	}
	done, err := db.appliedMigrations(ctx)
	if err != nil {
		return 0, fmt.Errorf("migrate %s: %w", db.Database(), err)
	}
	if err := checkHistory(db.Database(), known, done); err != nil {
		return 0, err
	}
	return db.applyPending(ctx, known, done, c == nil && spread == onCluster)
}

func (db *DB) applyPending(ctx context.Context, known []migration, done map[uint32]appliedMigration,
	refuse bool,
) (applied int, err error) {
	for _, m := range known {
		if _, ok := done[m.version]; ok {
			continue
		}
		if refuse {
			return 0, fmt.Errorf(
				"migrate %s: its tables are on a cluster and lack migration %s: run gputally migrate --cluster NAME first",
				db.Database(), m.name)
		}
		if err := db.apply(ctx, m); err != nil {
			return applied, err
		}
		applied++
	}
	return applied, nil
}

// createDatabase runs without a current database, since it may not exist yet, and first checks which kind of tables
// the database has.
func (db *DB) createDatabase(ctx context.Context, statement string, c *cluster) (spread, error) {
	admin, err := connect(db.options, "")
	if err != nil {
		return nowhere, err
	}
	defer func() { _ = admin.Close() }()
	found, err := isSpread(ctx, admin, db.Database())
	if err != nil {
		return nowhere, wrap("list tables", err)
	}
	if c != nil && found == onOneServer {
		return found, fmt.Errorf("the database's tables are on a single server: use another database for cluster %s", c.name)
	}
	return found, wrap("create database", admin.Exec(ctx, statement, Named("database", db.Database())))
}

// spread is where a database's tables are: nowhere, on one server, or on a cluster.
type spread int

const (
	nowhere spread = iota
	onOneServer
	onCluster
)

// isSpread checks the tables that the first migration creates.
func isSpread(ctx context.Context, admin driver.Conn, database string) (spread, error) {
	var found []struct {
		Name string `ch:"name"`
	}
	if err := admin.Select(ctx, &found, selectJournalTables, Named("database", database)); err != nil {
		return nowhere, err
	}
	for _, table := range found {
		if strings.HasSuffix(table.Name, tables.LocalSuffix) {
			return onCluster, nil
		}
	}
	if len(found) == 0 {
		return nowhere, nil
	}
	return onOneServer, nil
}

type appliedMigration struct {
	Version uint32 `ch:"version"`
	Name    string `ch:"name"`
	SHA256  string `ch:"sha256"`
}

func (db *DB) appliedMigrations(ctx context.Context) (map[uint32]appliedMigration, error) {
	var rows []appliedMigration
	if err := db.Select(ctx, &rows, selectMigrations); err != nil {
		return nil, err
	}
	done := map[uint32]appliedMigration{}
	for _, row := range rows {
		done[row.Version] = row
	}
	return done, nil
}

func checkHistory(database string, known []migration, done map[uint32]appliedMigration) error {
	byVersion := map[uint32]migration{}
	for _, m := range known {
		byVersion[m.version] = m
	}
	newest := known[len(known)-1]
	for _, version := range slices.Sorted(maps.Keys(done)) {
		row := done[version]
		m, ok := byVersion[version]
		if !ok {
			return fmt.Errorf("migrate %s: its schema has %s, this program knows up to %s: use a newer gputally", database,
				row.Name, newest.name)
		}
		if m.sha256 != row.SHA256 {
			return fmt.Errorf(
				"migrate %s: %s was applied as %s with SHA-256 %s, this program's has %s: a migration never changes, add a new one",
				database, m.name, row.Name, row.SHA256, m.sha256)
		}
	}
	return nil
}

func (db *DB) apply(ctx context.Context, m migration) error {
	for i, statement := range m.statements {
		if err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("apply migration %s, statement %d: %w", m.name, i+1, err)
		}
	}
	err := db.Exec(ctx, recordMigration,
		Named("version", m.version), Named("name", m.name),
		Named("sha256", m.sha256), Named("applied_ms", db.clock.Now().UnixMilli()))
	if err != nil {
		return fmt.Errorf("record migration %s: %w", m.name, err)
	}
	db.log.Info("migration applied", "database", db.Database(), "name", m.name, "statements", len(m.statements))
	return nil
}

// loadMigrations reads NNNN_name.sql of a directory and checks that the numbers start at 1 and have no gaps.
func loadMigrations(fsys fs.FS, dir string) ([]migration, error) {
	files, err := fs.Glob(fsys, dir+"/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var all []migration
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", file, err)
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("migration %s: its name must begin with a number and an underscore", file)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{uint32(version), name, hex.EncodeToString(sum[:]), splitStatements(string(text))})
	}
	slices.SortFunc(all, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	for i, m := range all {
		if m.version != uint32(i+1) {
			return nil, fmt.Errorf("migration %s: its number is %d, expected %d", m.name, m.version, i+1)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("list migrations: none found")
	}
	return all, nil
}

// splitStatements splits at semicolons that end a line, and drops comment lines.
func splitStatements(text string) []string {
	var statements []string
	var current strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		body, ends := strings.CutSuffix(line, ";")
		current.WriteString(body)
		current.WriteByte('\n')
		if ends {
			statements = appendStatement(statements, &current)
		}
	}
	return appendStatement(statements, &current)
}

func appendStatement(statements []string, current *strings.Builder) []string {
	statement := strings.TrimSpace(current.String())
	current.Reset()
	if statement == "" {
		return statements
	}
	return append(statements, statement)
}
