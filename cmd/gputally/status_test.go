package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store/storetest"
)

// importedLedger is the ledger of two batches, imported.
func importedLedger(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	data := filepath.Join(t.TempDir(), "data")
	if got := invoke(t, "import", "batches", "../../testdata/contract/cases/r12_replicas.jsonl", "--data", data); got.Code != exitOK {
		t.Fatalf("import: got %+v", got)
	}
	return data
}

func TestStatusOfALedgerThatNobodyServes(t *testing.T) {
	data := importedLedger(t)
	got := invoke(t, "status", "--data", data, "--output", "json")
	var st status
	if err := json.Unmarshal([]byte(got.Stdout), &st); err != nil || got.Code != exitOK {
		t.Fatalf("status: got %+v, %v", got, err)
	}
	if len(st.Clusters) != 1 || st.Clusters[0].Watermark == "" || st.Clusters[0].Hours == 0 || st.Clusters[0].BehindSeconds <= 0 {
		t.Errorf("clusters: got %+v, want one with a watermark in the past", st.Clusters)
	}
	var none int64
	st.Clusters = nil
	want := status{Data: data, LagMessages: &none, Spools: []statusSpool{{Collector: "import"}}}
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	got = invoke(t, "status", "--data", data)
	for _, line := range []string{"served by", "nobody", "messages to ingest", "hours to recompute", "batches waiting"} {
		if !strings.Contains(got.Stdout, line) {
			t.Errorf("status lacks %q:\n%s", line, got.Stdout)
		}
	}
}

// TestStatusNamesTheSocketWhereNothingListens on TCP.
func TestStatusNamesTheSocketWhereNothingListens(t *testing.T) {
	values := map[string]string{}
	for _, row := range (status{Running: &statusProcess{Socket: "/run/g/http.sock"}}).table().rows {
		values[row[1]] = row[2]
	}
	if values["http"] == "" || values["http socket"] != "/run/g/http.sock" {
		t.Errorf("status %v, want no empty address, and the socket", values)
	}
}

// TestStatusNamesWhatTakesAPerson: hours without raw stand out, and only they.
func TestStatusNamesWhatTakesAPerson(t *testing.T) {
	of := func(c statusCluster) []string {
		var whats []string
		for _, row := range (status{Clusters: []statusCluster{c}}).table().rows {
			whats = append(whats, row[1]+" "+row[2])
		}
		return whats
	}
	if got := of(statusCluster{}); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "late") }) {
		t.Errorf("nothing is late: got %q", got)
	}
	got := of(statusCluster{StaleHours: 3, LateBatches: 7})
	if diff := cmp.Diff([]string{"hours to adjust by hand 3", "late batches without raw 7"}, got[len(got)-2:]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestStatusOfARunningStandalone(t *testing.T) {
	storetest.Library(t)
	data := filepath.Join(t.TempDir(), "data")
	running := start(t, "standalone", "--data", data)
	got := invoke(t, "status", "--data", data, "--output", "json")
	var st status
	if err := json.Unmarshal([]byte(got.Stdout), &st); err != nil || st.Running == nil {
		t.Fatalf("status: got %+v, %v", got, err)
	}
	if st.Running.PID != os.Getpid() || "http://"+st.Running.HTTP != running.url || !strings.HasPrefix(st.Running.Command, "gputally standalone") {
		t.Errorf("running: got %+v, want this process at %s", st.Running, running.url)
	}
	if info, err := os.Stat(st.Running.Socket); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("http_socket %q: %v, want a socket", st.Running.Socket, err)
	}
	second := invoke(t, "standalone", "--data", data, "--listen", "127.0.0.1:0")
	if second.Code != exitEnvironment || !strings.Contains(second.Stderr, "is in use by process ") {
		t.Errorf("a second standalone: got %+v", second)
	}
	if code := running.stop(); code != exitOK {
		t.Errorf("standalone ended with %d", code)
	}
	got = invoke(t, "status", "--data", data, "--output", "json")
	if got.Code != exitOK || !strings.Contains(got.Stdout, `"running": null`) {
		t.Errorf("status after the end: got %+v", got)
	}
}
