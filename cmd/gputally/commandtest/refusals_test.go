package commandtest

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store"
)

// decided is the length and the hash chain of the decisions of a directory that
// nobody uses.
func decided(t *testing.T, data string) string {
	t.Helper()
	b, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Dir: filepath.Join(data, datadir.BrokerDir),
		Log: slog.New(slog.DiscardHandler), RetentionCheck: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	client := broker.NewClient(broker.Config{Brokers: []string{b.Addr()}}, slog.New(slog.DiscardHandler))
	defer client.Close()
	log := decisions.Follow(client, decisions.Options{})
	if err := log.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var at string
	log.View(func(s *decisions.State) { at = fmt.Sprintf("%d messages, chain %s", s.Next(), s.Chain()) })
	return at
}

// TestF1RefusedRetireAndImportDecideNothing: no refused command leaves anything in
// the decisions' topic, not even the first of two runs.
func TestF1RefusedRetireAndImportDecideNothing(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.MustInvoke(t, "inventory", "cluster", "declared", "--slot", "30s", "--data", data)
	file := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "file")
		placetest.WriteFile(t, path, strings.Join(lines, "\n")+"\n")
		return path
	}
	batch := func(cluster, slot string, slotMS int) string {
		return fmt.Sprintf(
			`{"cluster":%q,"node":"n1","slot":%q,"slot_ms":%d,"collector":"c1","boot_ms":2000,"seq":0,"gpus":[]}`, cluster,
			slot, slotMS)
	}
	const morning, header = "2026-03-02T00:00:00Z", "tenant,start,end,gpus"
	records := file(header, "a,2026-03-01,2026-03-02,1")
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"status":"error","errorType":"bad_data","error":"no"}`, http.StatusBadRequest)
	}))
	t.Cleanup(prometheus.Close)
	history := []string{"import", "prometheus", "--url", prometheus.URL, "--slot", "1m", "--from", "2026-03-01"}
	runs := []string{
		"import", "runs", "open", "--sends", "import", "--collector", "*", "--from", "2026-03-01", "--to",
		"2026-03-02",
	}
	before := decided(t, data)
	for name, args := range map[string][]string{
		"retire without a reason": {"inventory", "retire", "GPU-n1-0", "--at", morning},
		"retire an unknown GPU":   {"inventory", "retire", "GPU-9", "--at", morning, "--reason", "x"},
		"retire what is listed": {
			"inventory", "retire", "GPU-n1-0", "--at", "2026-03-01T01:00:00Z",
			"--reason", "x",
		},
		"a cluster of other slots": {"inventory", "cluster", "declared", "--slot", "10s"},
		"batches: no file":         {"import", "batches", filepath.Join(t.TempDir(), "none")},
		"batches: no JSON":         {"import", "batches", file("hello", "{")},
		"batches: other slots":     {"import", "batches", file(batch("fleet", morning, 10_000))},
		"batches: the future":      {"import", "batches", file(batch("fleet", "2099-01-01T00:00:00Z", 60_000))},
		"batches: the second run": {
			"import", "batches",
			file(batch("aaa", morning, 60_000), batch("declared", morning, 60_000)),
		},
		"allocations: no zone": {
			"import", "allocations", records, "--cluster", "lab", "--time-zone",
			"Mars/Olympus",
		},
		"allocations: no column": {"import", "allocations", records, "--cluster", "lab", "--columns", "tenant=vc"},
		"allocations: bad rows": {
			"import", "allocations", file(header, "a,never,2026-03-02,1"),
			"--cluster", "lab",
		},
		"allocations: declared otherwise": {"import", "allocations", records, "--cluster", "declared"},
		"allocations: a measured node":    {"import", "allocations", records, "--cluster", "fleet"},
		"sacct: no header":                {"import", "sacct", file("hello"), "--cluster", "hpc"},
		"sacct: declared otherwise": {
			"import", "sacct",
			file("JobID|User|Account|State|Start|End|AllocTRES",
				"1|u|a|COMPLETED|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=1"), "--cluster", "declared",
		},
		"prometheus: the future": append(history[:len(history):len(history)], "--to", "2099-01-01",
			"--cluster", "hist"),
		"prometheus: an error": append(history[:len(history):len(history)], "--to", "2026-03-02",
			"--cluster", "hist"),
		"prometheus: a measured cluster": append(history[:len(history):len(history)], "--to", "2026-03-02",
			"--cluster", "fleet"),
		"a run of a cluster of other slots": append(runs[:len(runs):len(runs)], "--cluster", "declared", "--slot", "10s"),
		"the end of no run":                 {"import", "runs", "close", "nobody"},
	} {
		got := programtest.Invoke(t, append(args, "--data", data)...)
		if after := decided(t, data); got.Code == cli.ExitOK || after != before {
			t.Errorf("%s: decided are %s, before it %s; got %+v", name, after, before, got)
			before = after
		}
	}
}

// TestReadingCommandsWriteNoRows: the table decisions follows the commands that
// decide something, however many were asked in between.
func TestReadingCommandsWriteNoRows(t *testing.T) {
	data := programtest.NewFleet(t) // its import opened a run
	rows := func() (count uint64) {
		programtest.WithTables(t, data, func(db *store.DB) {
			if err := db.QueryRow(t.Context(), "SELECT uniqExact(offset) FROM decisions").Scan(&count); err != nil {
				t.Fatal(err)
			}
		})
		return count
	}
	before := rows()
	for _, args := range [][]string{{"audit"}, {"invoice", "list", "--period", "2026-03"}, {"policy", "show"}} {
		programtest.MustInvoke(t, append(args, "--data", data)...)
		if after := rows(); after != before {
			t.Errorf("%s: %d rows of decisions, %d before", strings.Join(args, " "), after, before)
		}
	}
	programtest.MustInvoke(t, "prices", "load", priceFile(t, checkedPrices), "--data", data)
	if after := rows(); after <= before {
		t.Errorf("a price book was published, and there are %d rows of decisions, %d before", after, before)
	}
}
