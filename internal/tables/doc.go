// Package tables defines each table of ClickHouse once: a Go struct whose fields are the columns, and a Table with
// its engine and keys.
//
// Data in: rows as structs. Data out: the statements that create the tables, on a single server or a cluster, and
// blocks of typed columns for inserts and queries.
//
// A field's tag `ch` is the column's name; its tag `sql` is the column's type and what follows it (DEFAULT, COMMENT,
// CODEC). The migrations of package store are these statements as they were when they were released, and a test
// compares the tables that they create with the definitions: whoever changes a definition adds the migration.
package tables
