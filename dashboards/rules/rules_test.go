package rules

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// alert is a rule, in the fields of Prometheus' rule files.
type alert struct {
	Name        string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	text, err := YAML()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("%d alerts, want 20 or more", len(all))
	}
	return all
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts(t) {
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

// TestEveryAlertFiresInATest keeps an alert without a test out.
func TestEveryAlertFiresInATest(t *testing.T) {
	cases, err := os.ReadFile("testdata/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		if !strings.Contains(string(cases), `alertname="`+a.Name+`", alertstate="firing"`) {
			t.Errorf("alert %s fires in no test", a.Name)
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
