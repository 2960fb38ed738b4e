package commandtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/proof"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/storetest"
)

// importedLedger is the ledger of two batches, imported.
func importedLedger(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	data := filepath.Join(t.TempDir(), "data")
	if got := programtest.Invoke(t, "import", "batches", "../../../testdata/contract/cases/r12_replicas.jsonl", "--data",
		data); got.Code != cli.ExitOK {
		t.Fatalf("import: got %+v", got)
	}
	return data
}

func TestStatusOfALedgerThatNobodyServes(t *testing.T) {
	data := importedLedger(t)
	got := programtest.Invoke(t, "status", "--data", data, "--output", "json")
	var st proof.Status
	if err := json.Unmarshal([]byte(got.Stdout), &st); err != nil || got.Code != cli.ExitOK {
		t.Fatalf("status: got %+v, %v", got, err)
	}
	if len(st.Clusters) != 1 || st.Clusters[0].Watermark == "" || st.Clusters[0].Hours == 0 ||
		st.Clusters[0].BehindSeconds <= 0 {
		t.Errorf("clusters: got %+v, want one with a watermark in the past", st.Clusters)
	}
	var none int64
	st.Clusters = nil
	want := proof.Status{Data: data, LagMessages: &none, Spools: []proof.StatusSpool{{Collector: "import"}}}
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	got = programtest.Invoke(t, "status", "--data", data)
	for _, line := range []string{"served by", "nobody", "messages to ingest", "hours to recompute", "batches waiting"} {
		if !strings.Contains(got.Stdout, line) {
			t.Errorf("status lacks %q:\n%s", line, got.Stdout)
		}
	}
}

func TestStatusOfARunningStandalone(t *testing.T) {
	storetest.Library(t)
	data := filepath.Join(t.TempDir(), "data")
	running := programtest.Start(t, "standalone", "--data", data)
	got := programtest.Invoke(t, "status", "--data", data, "--output", "json")
	var st proof.Status
	if err := json.Unmarshal([]byte(got.Stdout), &st); err != nil || st.Running == nil {
		t.Fatalf("status: got %+v, %v", got, err)
	}
	if st.Running.PID != os.Getpid() || "http://"+st.Running.HTTP != running.Url || !strings.HasPrefix(st.Running.Command,
		"gputally standalone") {
		t.Errorf("running: got %+v, want this process at %s", st.Running, running.Url)
	}
	if info, err := os.Stat(st.Running.Socket); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("http_socket %q: %v, want a socket", st.Running.Socket, err)
	}
	second := programtest.Invoke(t, "standalone", "--data", data, "--listen", "127.0.0.1:0")
	if second.Code != cli.ExitEnvironment || !strings.Contains(second.Stderr, "is in use by process ") {
		t.Errorf("a second standalone: got %+v", second)
	}
	if code := running.Stop(); code != cli.ExitOK {
		t.Errorf("standalone ended with %d", code)
	}
	got = programtest.Invoke(t, "status", "--data", data, "--output", "json")
	if got.Code != cli.ExitOK || !strings.Contains(got.Stdout, `"running": null`) {
		t.Errorf("status after the end: got %+v", got)
	}
}
