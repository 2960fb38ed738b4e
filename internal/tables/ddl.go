package tables

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Table is a table whose columns are the fields of a row.
type Table struct {
	Name        string
	Row         reflect.Type
	Version     string   // the column whose greatest value ReplacingMergeTree keeps; empty: the last inserted row
	Partition   string   // PARTITION BY; empty: none
	Order       []string // ORDER BY: of rows with equal values one is kept
	Constraints []string
	// Shard is the column by which rows are distributed over a cluster's servers. FINAL replaces rows within a
	// server, so all versions of a row must be on one: it must be in Order. Empty: node, if that is in Order, else
	// all of Order.
	Shard string
}

func of[R any](t Table) Table {
	t.Row = reflect.TypeFor[R]()
	return t
}

// columns are the lines of CREATE TABLE.
func (t Table) columns() []string {
	var out []string
	for _, f := range reflect.VisibleFields(t.Row) {
		if name, ok := f.Tag.Lookup("ch"); ok {
			out = append(out, name+" "+f.Tag.Get("sql"))
		}
	}
	return out
}

// keys are the clauses after the engine.
func (t Table) keys() string {
	var b strings.Builder
	if t.Partition != "" {
		b.WriteString("PARTITION BY " + t.Partition + "\n")
	}
	order := t.Order[0]
	if len(t.Order) > 1 {
		order = "(" + strings.Join(t.Order, ", ") + ")"
	}
	return b.String() + "ORDER BY " + order
}

func lines(parts []string) string { return "\n(\n    " + strings.Join(parts, ",\n    ") + "\n)\n" }

// Create returns the statement that creates the table on a single server.
func (t Table) Create() string {
	engine := "ReplacingMergeTree"
	if t.Version != "" {
		engine += "(" + t.Version + ")"
	}
	return "CREATE TABLE IF NOT EXISTS " + t.Name + lines(append(t.columns(), t.Constraints...)) + "ENGINE = " + engine +
		"\n" + t.keys()
}

// LocalSuffix is the suffix of the names of the servers' local tables on a cluster.
const LocalSuffix = "_local"

// CreateOn returns the statements that create the table on a cluster: T_local on every server, replicated inside its
// shard, and T, Distributed over them, so that statements on T need no change. A Distributed table has no
// constraints: the local tables enforce them. The names are not escaped.
func (t Table) CreateOn(cluster, database string) []string {
	on := " ON CLUSTER '" + cluster + "'"
	arguments := "'/clickhouse/tables/{shard}/{database}/" + t.Name + "', '{replica}'"
	if t.Version != "" {
		arguments += ", " + t.Version
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + t.Name + LocalSuffix + on + lines(append(t.columns(), t.Constraints...)) +
			"ENGINE = ReplicatedReplacingMergeTree(" + arguments + ")\n" + t.keys(),
		"CREATE TABLE IF NOT EXISTS " + t.Name + on + lines(t.columns()) +
			"ENGINE = Distributed('" + cluster + "', '" + database + "', '" + t.Name + LocalSuffix + "', " +
			t.shardingKey() + ")",
	}
}

func (t Table) shardingKey() string {
	switch {
	case t.Shard != "":
		return "cityHash64(" + t.Shard + ")"
	case slices.Contains(t.Order, "node"):
		return "cityHash64(node)"
	}
	return "cityHash64(" + strings.Join(t.Order, ", ") + ")"
}

// View is a named query.
type View struct{ Name, Query string }

// Create returns the statement that creates the view; on a cluster if one is named.
func (v View) Create(cluster string) string {
	on := ""
	if cluster != "" {
		on = " ON CLUSTER '" + cluster + "'"
	}
	return "CREATE VIEW IF NOT EXISTS " + v.Name + on + " AS\n" + v.Query
}

// Statements returns the statements that create all tables and views, in order; on a cluster if one is named.
func Statements(cluster, database string) []string {
	var out []string
	for _, t := range All {
		if cluster == "" {
			out = append(out, t.Create())
		} else {
			out = append(out, t.CreateOn(cluster, database)...)
		}
	}
	for _, v := range Views {
		out = append(out, v.Create(cluster))
	}
	return out
}

// Columns are the names of the columns of R, in the order of its fields, as a statement's list: "a, b, c".
func Columns[R any]() string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[R]()) {
		if name, ok := f.Tag.Lookup("ch"); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Find returns the table with a name.
func Find(name string) (Table, error) {
	i := slices.IndexFunc(All, func(t Table) bool { return t.Name == name })
	if i < 0 {
		return Table{}, fmt.Errorf("there is no table %q", name)
	}
	return All[i], nil
}
