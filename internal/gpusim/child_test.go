package gpusim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/internal/gpusim"
)

// childVariable makes this test binary a program that doesn't know of the simulator
// and prints what DCGM returns.
const childVariable = "GPUSIM_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child() error {
	if _, err := dcgm.Init(dcgm.Embedded); err != nil {
		return err
	}
	gpus, err := dcgm.GetSupportedDevices()
	if err != nil {
		return err
	}
	hierarchy, err := dcgm.GetGPUInstanceHierarchy()
	if err != nil {
		return err
	}
	if err := dcgm.Shutdown(); err != nil { // closes the library
		return err
	}
	if _, err := dcgm.Init(dcgm.Standalone, "tcp://node:5555"); err != nil {
		return err
	}
	again, err := dcgm.GetSupportedDevices()
	fmt.Println(len(gpus), hierarchy.Count, len(again))
	return err
}

func runChild(t *testing.T, env ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), childVariable+"=1"), env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func buildOrSkip(t *testing.T) string {
	t.Helper()
	gpusim.Open(t)
	dir, err := gpusim.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestChildProcessByEnvironment(t *testing.T) {
	dir := buildOrSkip(t)
	if out, err := runChild(t, gpusim.Env(dir, "gpus 4", "mig 0 1g.10gb*7")...); err != nil || out != "4 14 4" {
		t.Errorf("got %q (%v), want 4 GPUs, 14 instances, 4 GPUs again", out, err)
	}
	config := filepath.Join(t.TempDir(), "node.conf")
	if err := os.WriteFile(config, []byte("# two GPUs\ngpus 2 model \"NVIDIA H200\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := runChild(t, append(gpusim.Env(dir), "GPUSIM_CONFIG="+config)...); err != nil || out != "2 0 2" {
		t.Errorf("got %q (%v), want 2 GPUs, no instances, 2 GPUs again", out, err)
	}
}

func TestChildProcessRefusesABadConfiguration(t *testing.T) {
	dir := buildOrSkip(t)
	out, err := runChild(t, gpusim.Env(dir, "gpus 4", "gups 5")...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(out, `GPUSIM: "gups 5": unknown verb "gups"`) {
		t.Errorf("got %q (%v), want exit status 2 and the line", out, err)
	}
	config := filepath.Join(t.TempDir(), "node.conf")
	if err := os.WriteFile(config, []byte("gpus 1\n\nutil 0 400\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = runChild(t, append(gpusim.Env(dir), "GPUSIM_CONFIG="+config)...)
	if err == nil || !strings.Contains(out, config+":3: ") {
		t.Errorf("got %q (%v), want a refusal that names line 3", out, err)
	}
}

func TestBuildIsDoneOnce(t *testing.T) {
	dir := buildOrSkip(t)
	path := filepath.Join(dir, "libdcgm.so.4")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gpusim.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the library of %v was built again at %v though nothing changed", before.ModTime(), after.ModTime())
	}
}
