package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

func TestNamesOfAClusterAreChecked(t *testing.T) {
	for _, name := range []string{"a b", "it's", "{x", "-a"} {
		if _, err := store.Statements("led", name); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("cluster %q: error %v, want its name", name, err)
		}
	}
	if _, err := store.Statements("le d", "{cluster}"); err == nil || !strings.Contains(err.Error(), `"le d"`) {
		t.Errorf("database: error %v, want its name", err)
	}
}

func TestAlterNamesEveryServersTable(t *testing.T) {
	got, err := store.EveryServer("Distributed('prod', 'led', 'holds_local', cityHash64(node))")
	if err != nil || got != "prod.holds_local" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, engine := range []string{
		"Distributed(`a`)", "ReplacingMergeTree ORDER BY x",
		`Distributed('p\' DROP', 'led', 'x')`,
	} {
		if got, err := store.EveryServer(engine); err == nil || !strings.Contains(err.Error(), "engine is") {
			t.Errorf("%s: %q, %v; want an error that shows it", engine, got, err)
		}
	}
	db := storetest.Open(t)
	const insert = "INSERT INTO raw_weeks (week) SELECT arrayJoin([toDate('2026-11-16'), toDate('2026-11-09')])"
	if err := db.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	if err := db.Alter(t.Context(), "raw_weeks", "DELETE WHERE week = {week:Date} SETTINGS mutations_sync = 2",
		store.Named("week", "2026-11-09")); err != nil {
		t.Fatal(err)
	}
	var weeks []struct {
		Week string `ch:"week"`
	}
	if err := db.Select(t.Context(), &weeks, "SELECT toString(week) AS week FROM raw_weeks"); err != nil ||
		len(weeks) != 1 || weeks[0].Week != "2026-11-16" {
		t.Errorf("rows left: %v, %v; want that of 2026-11-16", weeks, err)
	}
	if err := db.Alter(t.Context(), "a; b", "DELETE WHERE 1"); err == nil || !strings.Contains(err.Error(), `"a; b"`) {
		t.Errorf("a name that is none: %v", err)
	}
}

func TestEveryTableHasItsShards(t *testing.T) {
	all, err := store.Statements("led", "prod")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, s := range all {
		if _, rest, ok := strings.Cut(s, "Distributed('prod', 'led', '"); ok {
			local, key, _ := strings.Cut(rest, "_local', ")
			keys[local] = strings.TrimSuffix(key, ")")
		}
		if !strings.Contains(s, " ON CLUSTER 'prod'") {
			t.Errorf("it is for one server only: %s", s)
		}
	}
	for table, want := range map[string]string{
		"batches": "cityHash64(node)", "holds": "cityHash64(node)", "samples": "cityHash64(node)",
		"events":    "cityHash64(node)",
		"sightings": "cityHash64(node)", "usage_hourly": "cityHash64(gpu)", "owners": "cityHash64(id)",
		"leaves": "cityHash64(id)",
		"epochs": "cityHash64(epoch, claim)", "anomalies": "cityHash64(start, id)",
		"schema_migrations": "cityHash64(version)",
		"late_unprocessed":  "cityHash64(topic, partition, offset)", "decisions": "cityHash64(offset)",
		"invoices": "cityHash64(period, tenant, revision)",
	} {
		if keys[table] != want {
			t.Errorf("%s is sharded by %q, want %q", table, keys[table], want)
		}
	}
	single, err := store.Statements("led", "")
	if err != nil || len(single) >= len(all) ||
		slices.ContainsFunc(single, func(s string) bool { return strings.Contains(s, "CLUSTER") }) {
		t.Errorf("%d statements without a cluster, %d with one, %v", len(single), len(all), err)
	}
}
