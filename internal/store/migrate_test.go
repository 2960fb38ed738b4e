package store_test

import (
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

func files(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys["migrations/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

const (
	tableA = "-- a;\nCREATE TABLE IF NOT EXISTS a (x UInt8 COMMENT 'a; b')\nENGINE = MergeTree ORDER BY x;\n"
	tableB = "CREATE TABLE IF NOT EXISTS b (x UInt8) ENGINE = MergeTree ORDER BY x;\n"
)

func tableNames(t *testing.T, db *store.DB) string {
	t.Helper()
	var names []struct {
		Name string `ch:"name"`
	}
	if err := db.Select(t.Context(), &names,
		"SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name"); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, n := range names {
		all = append(all, n.Name)
	}
	return strings.Join(all, " ")
}

func TestMigrateMakesEveryTableOnce(t *testing.T) {
	db := storetest.OpenEmpty(t)
	first, err := db.Migrate(t.Context())
	if err != nil || first < 1 {
		t.Fatalf("first run: %d applied, %v", first, err)
	}
	got := tableNames(t, db)
	for _, name := range []string{
		"anomalies", "batches", "clusters", "epochs", "events", "holds", "leaves", "owners",
		"samples", "sightings", "usage", "usage_hourly",
	} {
		if !strings.Contains(" "+got+" ", " "+name+" ") {
			t.Errorf("table %s is missing in: %s", name, got)
		}
	}
	again, err := db.Migrate(t.Context())
	if err != nil || again != 0 {
		t.Errorf("second run: %d applied, %v; want 0", again, err)
	}
}

func TestMigrateIsMendedAfterACrashInMidFile(t *testing.T) {
	db := storetest.OpenEmpty(t)
	broken := files(map[string]string{"0001_a.sql": tableA +
		"CREATE TABLE IF NOT EXISTS b (x Nonsense) ENGINE = Memory;\n"})
	applied, err := db.MigrateFrom(t.Context(), broken)
	if err == nil || applied != 0 || !strings.Contains(err.Error(), "0001_a, statement 2") {
		t.Fatalf("broken file: %d applied, %v; want its name and the statement's number", applied, err)
	}
	applied, err = db.MigrateFrom(t.Context(), files(map[string]string{"0001_a.sql": tableA + tableB}))
	if err != nil || applied != 1 {
		t.Fatalf("mended file: %d applied, %v; want 1", applied, err)
	}
	if diff := cmp.Diff("a b schema_migrations", tableNames(t, db)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

func TestMigrateTwoAtOnce(t *testing.T) {
	db := storetest.OpenEmpty(t)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = db.Migrate(t.Context()) })
	}
	wg.Wait()
	if errs[0] != nil || errs[1] != nil {
		t.Fatalf("errors: %v", errs)
	}
	if again, err := db.Migrate(t.Context()); err != nil || again != 0 {
		t.Errorf("afterwards: %d applied, %v; want 0", again, err)
	}
}

func TestMigrateRefusesWhatItDoesNotKnow(t *testing.T) {
	db := storetest.OpenEmpty(t)
	both := files(map[string]string{"0001_a.sql": tableA, "0002_b.sql": tableB})
	if applied, err := db.MigrateFrom(t.Context(), both); err != nil || applied != 2 {
		t.Fatalf("%d applied, %v", applied, err)
	}
	_, err := db.MigrateFrom(t.Context(), files(map[string]string{"0001_a.sql": tableA}))
	if err == nil || !strings.Contains(err.Error(), "0002_b") || !strings.Contains(err.Error(), "up to 0001_a") {
		t.Errorf("newer schema: %v, want both names", err)
	}
	_, err = db.MigrateFrom(t.Context(), files(map[string]string{"0001_a.sql": tableA + "\n", "0002_b.sql": tableB}))
	if err == nil || !strings.Contains(err.Error(), "0001_a") || !strings.Contains(err.Error(), "never changes") {
		t.Errorf("changed file: %v, want its name", err)
	}
	for name, fsys := range map[string]fstest.MapFS{
		"expected 2": files(map[string]string{"0001_a.sql": tableA, "0003_c.sql": tableB}),
		"must begin": files(map[string]string{"first.sql": tableA}),
		"none":       files(nil),
	} {
		if _, err := db.MigrateFrom(t.Context(), fsys); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q in it", err, name)
		}
	}
}

func TestSplitStatements(t *testing.T) {
	const text = "-- one;\n\nA 'x; y'\n  -- inner;\nB;\n\n;\nC -- tail\n;\r\nD"
	if diff := cmp.Diff([]string{"A 'x; y'\nB", "C -- tail", "D"}, store.SplitStatements(text)); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}
