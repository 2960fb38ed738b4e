// Package engine serves ClickHouse's HTTP interface over libchdb, which is
// ClickHouse itself as a library: one data directory, no server to install.
//
// Data in: statements and Native blocks over HTTP, on a Unix socket. Data out:
// Native blocks, and ClickHouse's own exceptions with their codes. clickhouse-go
// speaks to it as to a server.
//
// Invariants: an insert is answered with 200 only after its parts are written
// with fsync; each statement has a connection of its own, so that none leaves a
// setting or a temporary table to another; one directory is open in one process, by
// the engine's own lock.
//
// What can go wrong: the library is missing or too old (an error that says
// where it was looked for), the directory is in use elsewhere (an error with
// the holder's pid), C++ crashes the process. Against the last one, Supervise
// runs Serve in a child process and starts it again.
package engine
