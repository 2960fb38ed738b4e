package rules

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write "+FileName)

func TestGolden(t *testing.T) {
	got, err := YAML()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(FileName, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(FileName)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale, run go generate (-want +got):\n%s", FileName, diff)
	}
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, a := range g.Rules {
			if seen[a.Name] || !strings.HasPrefix(a.Name, "GPUTally") {
				t.Errorf("alert %s: want a name of its own that begins with GPUTally", a.Name)
			}
			seen[a.Name] = true
			if a.For == "" || a.Labels["severity"] == "" {
				t.Errorf("alert %s: for %q, severity %q: want both", a.Name, a.For, a.Labels["severity"])
			}
			for _, key := range []string{"summary", "description", "runbook"} {
				if a.Annotations[key] == "" {
					t.Errorf("alert %s has no %s", a.Name, key)
				}
			}
		}
	}
}

// TestEveryAlertFiresInATest keeps an alert without a test out.
func TestEveryAlertFiresInATest(t *testing.T) {
	cases, err := os.ReadFile("testdata/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups() {
		for _, a := range g.Rules {
			if !strings.Contains(string(cases), `alertname="`+a.Name+`", alertstate="firing"`) {
				t.Errorf("alert %s fires in no test", a.Name)
			}
		}
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("promtool is needed in CI: %v", err)
		}
		t.Skipf("needs promtool, of the package prometheus: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolChecksTheRules(t *testing.T) { promtool(t, "check", "rules", FileName) }

func TestPromtoolRunsTheRules(t *testing.T) { promtool(t, "test", "rules", "testdata/rules_test.yml") }
