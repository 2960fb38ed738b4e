package gpusim_test

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/gpusim"
)

// notRun are go-dcgm's own top-level tests that don't test the simulator, with the
// reason.
var notRun = map[string]string{
	"TestGetEntityGroupEntities": "wants NVSwitches from DCGM's own mock, which aren't modelled",
	"TestCallbackLimitExceeded":  "fills Go's memory with 131072 values and calls no DCGM",
	"TestOptimizationProof":      "counts Go's allocations and calls no DCGM",
}

// skippedByItself are the tests that skip themselves on the simulator.
var skippedByItself = map[string]string{
	"TestWatchPidFieldsDoesNotLeakGroupOnNonRootWatchError": "needs a host engine that isn't root",
}

// upstreamAtLeast is the least number of tests that must run, so that a wrong pattern
// is noticed: go-dcgm v1.4601.1 has 95 tests.
const upstreamAtLeast = 90

// TestUpstream runs go-dcgm's own tests, in their own process, on the simulated
// library: the simulator must behave as they expect DCGM to.
func TestUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs go-dcgm's tests")
	}
	gpusim.Open(t) // skips without a C toolchain
	dir, err := gpusim.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	skip := "^(" + strings.Join(slices.Sorted(maps.Keys(notRun)), "|") + ")$"
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-skip", skip, "github.com/NVIDIA/go-dcgm/pkg/dcgm")
	cmd.Env = append(os.Environ(), gpusim.Env(dir, "gpus 2")...)
	out, err := cmd.CombinedOutput()
	results := topLevelResults(out)
	if err != nil || len(results["FAIL"]) > 0 {
		t.Fatalf("go-dcgm's tests fail on the simulator: %v\nfailed: %v\n%s", err, results["FAIL"], tail(out, 60))
	}
	if n := len(results["PASS"]); n < upstreamAtLeast {
		t.Errorf("only %d of go-dcgm's tests ran, want at least %d", n, upstreamAtLeast)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(skippedByItself)), results["SKIP"]); diff != "" {
		t.Errorf("tests that skipped themselves (-want +got):\n%s", diff)
	}
}

var resultLine = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\w+) `)

func topLevelResults(out []byte) map[string][]string {
	results := map[string][]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if m := resultLine.FindStringSubmatch(lines.Text()); m != nil {
			results[m[1]] = append(results[m[1]], m[2])
		}
	}
	return results
}

func tail(out []byte, lines int) string {
	all := strings.Split(string(out), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
