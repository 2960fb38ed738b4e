// Package store is the only access to ClickHouse: a server, a cluster, or the embedded engine, all by the same HTTP
// interface and client.
//
// Data in: column blocks (Insert) and statements with parameters. Data out: rows. The tables are defined in
// migrations/*.sql, which Migrate applies in order.
//
// Invariants: when Insert returns nil the rows are written, not queued; every statement runs in the configured
// database and in UTC; a schema newer than this program is refused, naming its version.
//
// Errors: ClickHouse's exceptions, as *Exception with their code, and network errors. Retryable returns whether an
// error is temporary.
package store
