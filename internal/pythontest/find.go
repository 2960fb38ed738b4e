package pythontest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputally/gputally/internal/placetest"
)

// Find returns the path of a program such as "focus-validator", and of the folder with
// the installed packages. If the program is missing, it skips the test with the reason;
// with CI=true the test fails. A short run skips the test.
func Find(t testing.TB, program string) (path, packages string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
	path, packages, err := find(program)
	switch {
	case err == nil:
		return path, packages
	case os.Getenv("CI") == "true":
		t.Fatalf("needs %s: %v", program, err)
	default:
		t.Skipf("needs %s: %v", program, err)
	}
	return "", ""
}

// find searches below the module's folder.
func find(program string) (path, packages string, err error) {
	dir, err := placetest.Root()
	if err != nil {
		return "", "", err
	}
	python := filepath.Join(dir, ".build", "python")
	path = filepath.Join(python, "bin", program)
	if _, err := os.Stat(path); err != nil {
		return "", "", fmt.Errorf("find %s: %w; make test-deps installs it where Python 3.12 is", program, err)
	}
	folders, err := filepath.Glob(filepath.Join(python, "lib", "python*", "site-packages"))
	if err != nil || len(folders) != 1 {
		return "", "", fmt.Errorf("find packages in %s: %d folders, want one", python, len(folders))
	}
	return path, folders[0], nil
}
