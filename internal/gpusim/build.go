package gpusim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	dcgmModule = "github.com/NVIDIA/go-dcgm"
	nvmlModule = "github.com/NVIDIA/go-nvml"

	libModel = "libgpusim.so"
	libDCGM  = "libdcgm.so.4"
	libNVML  = "libnvidia-ml.so.1"
)

// ErrNoCompiler means that this machine can't build the libraries: the C
// compiler of `go env CC`, make or awk is missing.
var ErrNoCompiler = errors.New("no C toolchain")

// Build makes the libraries and returns their folder, .build/gpusim under the
// repository's root. It compiles only what is older than its source, and holds
// a lock while it does, so that test processes may call it at the same time.
//
// A child process uses them with LD_LIBRARY_PATH, see Env.
func Build(ctx context.Context) (string, error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".build", "gpusim")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create build folder: %w", err)
	}
	unlock, err := lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		return "", err
	}
	defer unlock()
	return dir, runMake(ctx, root, dir)
}

// Env returns the environment variables with which a child process uses the
// libraries in dir, with the given lines as configuration.
func Env(dir string, lines ...string) []string {
	return []string{"LD_LIBRARY_PATH=" + dir, "GPUSIM=" + strings.Join(lines, ";")}
}

func runMake(ctx context.Context, root, dir string) error {
	compiler, err := compilerCommand(ctx, root)
	if err != nil {
		return err
	}
	args := []string{
		"--silent", "--no-print-directory", "-C", filepath.Join(root, "testdata", "gpusim"), "OUT=" + dir,
		"CC=" + compiler,
	}
	for name, module := range map[string]string{"DCGM_INCLUDE": dcgmModule, "NVML_INCLUDE": nvmlModule} {
		folder, err := goOutput(ctx, root, "list", "-m", "-f", "{{.Dir}}", module)
		if err != nil {
			return err
		}
		args = append(args, name+"="+filepath.Join(folder, "pkg", strings.TrimPrefix(filepath.Base(module), "go-")))
	}
	out, err := exec.CommandContext(ctx, "make", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build simulated libraries: %w\n%s", err, out)
	}
	return nil
}

// compilerCommand is the C compiler that `go build` uses.
func compilerCommand(ctx context.Context, root string) (string, error) {
	command, err := goOutput(ctx, root, "env", "CC")
	if err != nil {
		return "", err
	}
	if command == "" {
		command = "cc"
	}
	for _, tool := range []string{strings.Fields(command)[0], "make", "awk"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
		}
	}
	return command, nil
}

func goOutput(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// repositoryRoot is the nearest folder upwards that has the simulator's
// source: tests run in their package's folder.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "testdata", "gpusim", "model.h")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find testdata/gpusim in %s or above: %w", start, os.ErrNotExist)
		}
	}
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
