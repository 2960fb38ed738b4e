package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

func TestParseStatement(t *testing.T) {
	tests := map[string]statement{
		"SELECT 1": {kind: kindSelect},
		"  -- c\n/* INSERT */ with x as (select 1) select": {kind: kindSelect},
		"(SELECT 1) UNION ALL (SELECT 2)":                  {kind: kindSelect},
		"SHOW TABLES":                                      {},
		"SET x = 1":                                        {},
		"CREATE TEMPORARY TABLE t":                         {},
		"INSERT INTO t SELECT 1":                           {},
		"INSERT INTO t (a) WITH 1 AS x SELECT x":           {},
		"INSERT INTO t VALUES (1, 'FORMAT')": {
			kind: kindInsert, sql: "INSERT INTO t ",
			format: "Values", data: " (1, 'FORMAT')",
		},
		"INSERT INTO t(a,b)VALUES(1)": {
			kind: kindInsert, sql: "INSERT INTO t(a,b)",
			format: "Values", data: "(1)",
		},
		"INSERT INTO `values` (`select`, \"format\") FORMAT Native": {
			kind: kindInsert,
			sql:  "INSERT INTO `values` (`select`, \"format\") ", format: "Native",
		},
		"INSERT INTO t (values, format) SETTINGS x='VALUES' FORMAT JSONEachRow\n{}\n\n{}": {
			kind: kindInsert,
			sql:  "INSERT INTO t (values, format) SETTINGS x='VALUES' ", format: "JSONEachRow", data: "{}\n\n{}",
		},
		"insert into t format TSV  \n\nx": {kind: kindInsert, sql: "insert into t ", format: "TSV", data: "\nx"},
		"INSERT INTO t FORMAT CSV;":       {kind: kindInsert, sql: "INSERT INTO t ", format: "CSV"},
		"INSERT INTO t":                   {kind: kindInsert},
		`INSERT INTO t /* '  */ VALUES ('\'')`: {
			kind: kindInsert, sql: `INSERT INTO t /* '  */ `, format: "Values",
			data: ` ('\'')`,
		},
	}
	for sql, want := range tests {
		if want.sql == "" {
			want.sql = sql
		}
		if diff := cmp.Diff(want, parseStatement(sql), cmp.AllowUnexported(statement{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", sql, diff)
		}
	}
}

// Whatever the text, an insert's parts are parts of it, in order.
func FuzzParseStatement(f *testing.F) {
	for _, seed := range []string{
		"INSERT INTO t FORMAT X\n\n1", "INSERT INTO t (a) VALUES ('", "SELECT `", "INSERT /*",
		"INSERT -- \\",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(sql)), func() {
			st := parseStatement(sql)
			if !strings.HasPrefix(sql, st.sql) || !strings.HasSuffix(sql, st.data) || len(st.sql)+len(st.data) > len(sql) {
				t.Errorf("%q: %+v", sql, st)
			}
		})
	})
}

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"26.7.0": true, "26.10.1": true, "27.1": true, "26.6.9": false,
		"3.7.2": false, "": false, "x.y": false,
	} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("version %q: %v, want ok %t", version, err, ok)
		}
	}
}
