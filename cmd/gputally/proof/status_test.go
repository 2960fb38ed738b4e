package proof

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/placetest"
)

// A spool folder may be a file system of its own: not all in it is a spool.
func TestSpoolStatesAreOfSpoolsAlone(t *testing.T) {
	data := t.TempDir()
	sp, err := spool.Open(filepath.Join(data, datadir.SpoolDir, "sim"), spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sp.Append(t.Context(), [][]byte{[]byte("a"), []byte("b")}); err != nil {
		t.Fatal(err)
	}
	if err := sp.Close(); err != nil {
		t.Fatal(err)
	}
	placetest.WriteFile(t, filepath.Join(data, datadir.SpoolDir, "README"), "mounted here")
	if err := os.Mkdir(filepath.Join(data, datadir.SpoolDir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := spoolStates(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []ingest.SpoolState{{Collector: "sim", Appended: 2, Remaining: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spools (-want +got):\n%s", diff)
	}
}

// TestStatusNamesTheSocketWhereNothingListens on TCP.
func TestStatusNamesTheSocketWhereNothingListens(t *testing.T) {
	values := map[string]string{}
	for _, row := range (Status{Running: &statusProcess{Socket: "/run/g/http.sock"}}).table().Rows {
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
		for _, row := range (Status{Clusters: []statusCluster{c}}).table().Rows {
			whats = append(whats, row[1]+" "+row[2])
		}
		return whats
	}
	if got := of(statusCluster{}); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "late") }) {
		t.Errorf("nothing is late: got %q", got)
	}
	got := of(statusCluster{StaleHours: 3, LateBatches: 7})
	if diff := cmp.Diff([]string{"stale hours, which stay as published 3", "late batches without raw 7"},
		got[len(got)-2:]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}
