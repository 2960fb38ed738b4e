// Package store is the one way to ClickHouse: a server, a cluster, or the
// embedded engine behind the same HTTP interface and the same client.
//
// Data in: column blocks (Insert) and statements with parameters. Data out:
// rows. The tables are in migrations/*.sql, which Migrate applies in order.
//
// Invariants: when Insert returns nil the rows are written, not queued; every
// statement runs in the configured database and in UTC; a schema newer than
// this program is refused by name.
//
// What can go wrong: ClickHouse's own exceptions, which arrive as *Exception
// with their code, and the network. Retryable tells what may pass by itself.
package store
