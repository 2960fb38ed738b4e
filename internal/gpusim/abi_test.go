package gpusim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/gputally/gputally/internal/gpusim"
)

// moduleDir is the folder of a module that go.mod names.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find module %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// matches are the first groups of a pattern in the files of a folder.
func matches(t *testing.T, glob string, pattern *regexp.Regexp) []string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s (%v)", glob, err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A function that go-dcgm calls and the library lacks ends the process at the
// call, without a Go error: so each is looked up here.
func TestEveryFunctionThatGoDCGMCallsIsThere(t *testing.T) {
	sim := gpusim.Open(t)
	dir := filepath.Join(moduleDir(t, "github.com/NVIDIA/go-dcgm"), "pkg", "dcgm")
	called := matches(t, filepath.Join(dir, "*.go"), regexp.MustCompile(`C\.((?:dcgm|Dcgm|errorS)\w+)\(`))
	declared := matches(t, filepath.Join(dir, "dcgm_*.h"), regexp.MustCompile(`\b(\w+)\(`))
	handle, err := purego.Dlopen(sim.DCGM(), purego.RTLD_LAZY)
	if err != nil {
		t.Fatal(err)
	}
	var checked int
	for _, name := range called {
		if !slices.Contains(declared, name) {
			continue // a type conversion
		}
		checked++
		if _, err := purego.Dlsym(handle, name); err != nil {
			t.Errorf("go-dcgm calls %s: %v", name, err)
		}
	}
	if checked != 56 {
		t.Errorf("go-dcgm calls %d functions, want the 56 of v1.4601.1: look at what a new version wants", checked)
	}
}

// TestSanitizers executes the libraries' code once under the address and
// undefined behaviour sanitizers (testdata/gpusim/check.c).
func TestSanitizers(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles with sanitizers")
	}
	gpusim.Open(t)
	out := t.TempDir()
	probe := exec.CommandContext(t.Context(), "cc", "-fsanitize=address,undefined", "-x", "c", "-o", filepath.Join(out, "probe"), "-")
	probe.Stdin = strings.NewReader("int main(void) { return 0; }")
	if text, err := probe.CombinedOutput(); err != nil {
		t.Skipf("this compiler has no sanitizers: %v\n%s", err, text)
	}
	text, err := exec.CommandContext(t.Context(), "make", "--silent", "-C", "../../testdata/gpusim", "OUT="+out,
		"DCGM_INCLUDE="+filepath.Join(moduleDir(t, "github.com/NVIDIA/go-dcgm"), "pkg", "dcgm"),
		"NVML_INCLUDE="+filepath.Join(moduleDir(t, "github.com/NVIDIA/go-nvml"), "pkg", "nvml"), "check").CombinedOutput()
	if err != nil {
		t.Errorf("make check: %v\n%s", err, text)
	}
}
