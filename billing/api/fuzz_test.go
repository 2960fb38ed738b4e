package api_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/pythontest"
)

// fuzzConfig tells the fuzzer what a description can't: that a request of the
// right form may still name what is not there, or contradict itself (a range
// that ends before it begins, a cursor of another query).
const fuzzConfig = `
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "404", "409", "422"]
`

// TestFuzz runs schemathesis against the API by its own description, stateful
// too: no answer is undocumented, and none is a server's error.
func TestFuzz(t *testing.T) {
	fuzzer, _ := pythontest.Find(t, "schemathesis")
	f := serve(t)
	finalised(t, f)
	server := httptest.NewServer(f)
	defer server.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(fuzzConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), fuzzer, "--config-file", filepath.Join(dir, "schemathesis.toml"),
		"run", server.URL+"/openapi.json", "--checks", "all", "--max-examples", fuzzExamples(), "--seed", "20261101",
		"--generation-database", "none", "--continue-on-failure", "--no-color", "--workers", "2", "--warnings", "off")
	run.Dir = dir
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("schemathesis: %v", err)
	}
}

func fuzzExamples() string {
	if n := os.Getenv("GPULEDGER_FUZZ_EXAMPLES"); n != "" {
		return n
	}
	return "200"
}
