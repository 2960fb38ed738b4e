package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/internal/clock"
)

// DB is a pool of connections to one database. It is safe for concurrent use.
type DB struct {
	conn    driver.Conn
	options Options
	log     *slog.Logger
	clock   clock.Clock
}

// Open checks the options and pings ClickHouse. The database need not exist yet.
func Open(ctx context.Context, o Options) (*DB, error) {
	if err := o.normalize(); err != nil {
		return nil, err
	}
	admin, err := connect(o, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = admin.Close() }()
	if err := admin.Ping(ctx); err != nil {
		return nil, wrap("connect to store at "+o.Address, err)
	}
	conn, err := connect(o, o.Database)
	if err != nil {
		return nil, err
	}
	return &DB{conn: conn, options: o, log: o.Log, clock: o.Clock}, nil
}

func connect(o Options, database string) (driver.Conn, error) {
	client, err := o.client(database)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(client)
	if err != nil {
		return nil, fmt.Errorf("open store at %s: %w", o.Address, err)
	}
	return conn, nil
}

// Database is the name of the database in which all statements run.
func (db *DB) Database() string { return db.options.Database }

// Ping returns an error if ClickHouse doesn't answer.
func (db *DB) Ping(ctx context.Context) error { return wrap("ping store", db.conn.Ping(ctx)) }

// Query runs a SELECT. Parameters are {name:Type} with Named, or ?. Close the rows and check their Err: a query can
// fail after its first row.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (driver.Rows, error) {
	rows, err := db.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, wrap("query", err)
	}
	return rows, nil
}

// QueryRow runs a SELECT of one row; Scan returns its error, sql.ErrNoRows if there is none.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) driver.Row {
	return db.conn.QueryRow(ctx, sql, args...)
}

// Select runs a SELECT into dest, a pointer to a slice of structs whose `ch`
// tags name the columns.
func (db *DB) Select(ctx context.Context, dest any, sql string, args ...any) error {
	return wrap("select", db.conn.Select(ctx, dest, sql, args...))
}

// Exec runs a statement without rows.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) error {
	return wrap("exec", db.conn.Exec(ctx, sql, args...))
}

// Close closes the connections.
func (db *DB) Close() error {
	if err := db.conn.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
