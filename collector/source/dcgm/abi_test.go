package dcgm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goDCGM is the folder of go-dcgm's sources and headers.
func goDCGM(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if err != nil {
		t.Fatalf("find go-dcgm: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "pkg", "dcgm")
}

// compiler is the C compiler that cgo used.
func compiler(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "CC").Output()
	if err != nil {
		t.Fatalf("find the C compiler: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func TestShimAgreesWithHeaders(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), compiler(t), "-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-I", ".", "-I", goDCGM(t), "testdata/abi.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("shim.h differs from DCGM's headers: %v\n%s", err, out)
	}
}

func TestShimHasNoWarnings(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), compiler(t), "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "shim.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A C function that go-dcgm calls on our behalf and load doesn't look up could
// end the process.
func TestEverySymbolIsLookedUp(t *testing.T) {
	dir := goDCGM(t)
	calls := regexp.MustCompile(`C\.(dcgm[A-Z]\w*|errorString)\(`)
	functions := map[string][]string{ // of go-dcgm, by file, that this package uses
		"admin.go":         {"startEmbedded", "stopEmbedded", "connectStandaloneV2", "connectStandaloneV3", "disconnectStandalone"},
		"device_info.go":   {"getSupportedDevices"},
		"device_status.go": {"getGPUStatus"},
		"fields.go":        {"FieldGroupCreate", "WatchFieldsWithGroupEx", "UnwatchFields", "UpdateAllFields", "EntitiesGetLatestValues"},
		"gpu_group.go":     {"CreateGroup", "AddEntityToGroup", "DestroyGroup"},
		"mig.go":           {"GetGPUInstanceHierarchy"},
		"utils.go":         {"errorString"},
		"version_info.go":  {"hostengineVersionInfo"},
	}
	known := append([]string{"dcgmConnect_v3", "dcgmStartEmbedded", "dcgmStopEmbedded"}, symbols...)
	var missed []string
	for file, names := range functions {
		source, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			_, body, found := strings.Cut(string(source), "func "+name+"(")
			if !found {
				t.Errorf("go-dcgm has no %s in %s any more", name, file)
				continue
			}
			body, _, _ = strings.Cut(body, "\n}\n")
			for _, m := range calls.FindAllStringSubmatch(body, -1) {
				isType := strings.HasSuffix(m[1], "_t") || strings.HasSuffix(m[1], "_f")
				if !isType && !slices.Contains(known, m[1]) {
					missed = append(missed, name+" calls "+m[1])
				}
			}
		}
	}
	if diff := cmp.Diff([]string(nil), missed); diff != "" {
		t.Errorf("symbols not looked up (-want +got):\n%s", diff)
	}
}
