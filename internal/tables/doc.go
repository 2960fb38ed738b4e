// Package tables defines the tables of ClickHouse, once each: a Go struct whose
// fields are the columns, and a Table with its engine and keys.
//
// Data in: rows as structs. Data out: the statements that make the tables, on one
// server or on a cluster, and blocks of typed columns for inserts and queries.
//
// A field's tag `ch` is the column's name; its tag `sql` is the column's type and
// whatever follows it (DEFAULT, COMMENT, CODEC). Package store's migrations are
// these statements as they were when they were released, and a test holds the
// tables that they make to the definitions: who changes a definition writes the
// migration to it.
package tables
