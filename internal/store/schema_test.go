package store_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/tables"
)

var firstMigration = flag.Bool("first-migration", false,
	"write migration 1 anew from the definitions; never after a release")

// TestMigrationsMakeWhatIsDefined: the migrations, whatever their number, make the
// tables and views of package tables, on one server and as on a cluster.
func TestMigrationsMakeWhatIsDefined(t *testing.T) {
	if *firstMigration {
		for dir, statements := range map[string][]string{
			"migrations":         tables.Statements("", ""),
			"migrations/cluster": tables.Statements("<cluster>", "<database>"),
		} {
			text := "-- Every table and view, as package tables defines them.\n\n" + strings.Join(trimmed(statements),
				";\n\n") + ";\n"
			if err := os.WriteFile(filepath.Join(dir, "0001_tables.sql"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Skip("migration 1 was written: build and test again")
	}
	for name, c := range map[string]struct {
		cluster string
		db      *store.DB
		defined *store.DB
	}{
		"one server": {"", storetest.Open(t), storetest.SpreadEmpty(t)},
		"cluster":    {storetest.SpreadCluster, storetest.Spread(t), storetest.SpreadEmpty(t)},
	} {
		for _, statement := range tables.Statements(c.cluster, c.defined.Database()) {
			storetest.SpreadExec(t, c.defined, statement)
		}
		if diff := cmp.Diff(definitions(t, c.defined), definitions(t, c.db)); diff != "" {
			t.Errorf("%s: the migrations make other tables than are defined: write a migration (-defined +migrated):\n%s",
				name, diff)
		}
	}
}

func trimmed(statements []string) []string {
	out := slices.Clone(statements)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// definitions are the statements that make the tables and views, without the
// database's name.
func definitions(t *testing.T, db *store.DB) map[string]string {
	t.Helper()
	var rows []struct {
		Name string `ch:"name"`
		Text string `ch:"create_table_query"`
	}
	if err := db.Select(t.Context(), &rows,
		"SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE "+
			"'schema_migrations%'"); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r.Name] = strings.ReplaceAll(r.Text, db.Database(), "DB")
	}
	return out
}

// TestEveryMigrationHasItsTwin: what is applied to one server is applied to clusters.
func TestEveryMigrationHasItsTwin(t *testing.T) {
	names := func(dir string) []string {
		files, err := filepath.Glob(dir + "/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		return files
	}
	if diff := cmp.Diff(names("migrations"), names("migrations/cluster")); diff != "" {
		t.Errorf("one server's and a cluster's migrations differ:\n%s", diff)
	}
}
