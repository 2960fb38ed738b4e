package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// script is a program that a test writes.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "squeue")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil { //nolint:gosec // a program must be executable
		t.Fatal(err)
	}
	return path
}

func TestProgramsPassArgumentsWithoutAShell(t *testing.T) {
	t.Setenv("SQUEUE_USERS", "nobody")
	t.Setenv("SLURM_CLUSTERS", "other")
	t.Setenv("SLURM_CONF", "/wrong")
	path := script(t, `printf '%s|' "$@"; env | grep -E '^(SQUEUE|SLURM)'`)
	out, err := programs(time.Minute, "/right/slurm.conf")(t.Context(), path, "a b", "$(id)", ";")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a b|$(id)|;|SLURM_CONF=/right/slurm.conf\n", string(out)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestEnvironmentKeepsSlurmConfUnlessConfigured(t *testing.T) {
	environ := []string{"PATH=/bin", "SLURM_CONF=/a", "SLURM_JWT=x", "SLURM_JOB_ID=1", "SQUEUE_STATES=PD", "SCONTROL_FUTURE=1"}
	if diff := cmp.Diff([]string{"PATH=/bin", "SLURM_CONF=/a", "SLURM_JWT=x"}, environment(environ, "")); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PATH=/bin", "SLURM_JWT=x", "SLURM_CONF=/b"}, environment(environ, "/b")); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestProgramsAreBounded(t *testing.T) {
	run := programs(50*time.Millisecond, "")
	if _, err := run(t.Context(), script(t, "exec sleep 60")); err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("a program that hangs: got %v", err)
	}
	run = programs(time.Minute, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, script(t, "exec sleep 60")); !errors.Is(err, context.Canceled) {
		t.Errorf("a poll that ends: got %v, want it canceled", err)
	}
	if _, err := run(t.Context(), script(t, "exec yes")); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("a program without an end: got %v", err)
	}
}

func TestProgramsErrorsSayWhatWasComplainedOf(t *testing.T) {
	run := programs(time.Minute, "")
	_, err := run(t.Context(), script(t, "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"))
	if err == nil || !strings.Contains(err.Error(), "exit status 1: slurm_load_jobs error: Invalid job id") || !unknownJob(err) {
		t.Errorf("a job that is not known: got %v", err)
	}
	_, err = run(t.Context(), script(t, "exit 3"))
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3") || unknownJob(err) {
		t.Errorf("a program that fails: got %v", err)
	}
	if _, err = run(t.Context(), "no-such-program-anywhere"); err == nil || !strings.Contains(err.Error(), "executable file not found") {
		t.Errorf("a program that isn't there: got %v", err)
	}
}

func TestCallsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	fake := &fakeSlurm{}
	run := counted(fake.run, reg)
	fake.down = errDown
	_, _ = run(t.Context(), "/usr/bin/scontrol", "show", "node")
	fake.down = nil
	_, _ = run(t.Context(), "squeue", "-h", "-a", "-o", "N%AN")
	want := `# HELP gputally_slurm_calls_total Calls of Slurm's programs by program and result; a job unknown to Slurm is an error too.
# TYPE gputally_slurm_calls_total counter
gputally_slurm_calls_total{program="scontrol",result="error"} 1
gputally_slurm_calls_total{program="squeue",result="ok"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
