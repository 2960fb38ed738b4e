package storetest_test

import (
	"os"
	"testing"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

const countAnomalies = "SELECT count() FROM anomalies"

// useDatabase opens a database, wants it empty, writes a row and carries out
// the statement. It gives the database's name.
func useDatabase(t *testing.T, statement string) (database string) {
	t.Helper()
	t.Run("use", func(t *testing.T) {
		db := storetest.Open(t)
		database = db.Database()
		var rows uint64
		if err := db.QueryRow(t.Context(), countAnomalies).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("a database handed out has %d anomalies, %v; want 0", rows, err)
		}
		for _, sql := range []string{"INSERT INTO anomalies (cluster) VALUES ('c')", statement} {
			if err := db.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	})
	return database
}

func TestADatabaseIsHandedOnEmpty(t *testing.T) {
	if os.Getenv("GPUTALLY_STORETEST_SPREAD") != "" {
		t.Skip("databases of a cluster are not handed on")
	}
	first := useDatabase(t, "SELECT 1")
	if second := useDatabase(t, "SELECT 1"); second != first {
		t.Errorf("the second test has database %s, want the first one's %s", second, first)
	}
}

func TestAChangedDatabaseIsNotHandedOn(t *testing.T) {
	for _, change := range []string{
		"ALTER TABLE anomalies ADD COLUMN more UInt8",
		"CREATE TABLE more (x UInt8) ENGINE = Memory",
		"DROP VIEW usage_daily SYNC",
	} {
		changed := useDatabase(t, change)
		next := storetest.Open(t)
		if next.Database() == changed {
			t.Errorf("%s: the database was handed on", change)
		}
		admin := storetest.Connect(t, storetest.Socket(t), "default")
		var databases uint64
		err := admin.QueryRow(t.Context(), "SELECT count() FROM system.databases WHERE name = {name:String}",
			store.Named("name", changed)).Scan(&databases)
		if err != nil || databases != 0 {
			t.Errorf("%s: the database is still there (%d, %v), want it dropped", change, databases, err)
		}
	}
}
