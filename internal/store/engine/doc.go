// Package engine serves ClickHouse's HTTP interface over libchdb, which is ClickHouse as a library: one data
// directory, no server to install.
//
// Data in: statements and Native blocks over HTTP, on a Unix socket. Data out: Native blocks, and ClickHouse's own
// exceptions with their codes. clickhouse-go uses it like a server.
//
// Invariants: an insert is answered with 200 only after its parts are written with fsync; each statement has its own
// connection, so that settings and temporary tables don't leak to others; the engine's own lock ensures that a
// directory is open in one process only.
//
// Errors: the library is missing or too old (the error lists where it was searched), or the directory is in use (the
// error has the holder's pid). A crash of the C++ code ends the process; therefore Supervise runs Serve in a child
// process and restarts it.
package engine
