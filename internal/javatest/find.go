package javatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gputally/gputally/internal/placetest"
)

// Find returns the path of java and the class path of a server, whose jars are in
// .build/folder of the module. If its main jar (a pattern) or Java is missing, it skips
// the test with the reason; with CI=true the test fails. A short run skips the test.
func Find(t testing.TB, server, folder, mainJar string) (java, classPath string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
	java, err := exec.LookPath("java")
	if err == nil {
		classPath, err = jars(server, folder, mainJar)
	}
	switch {
	case err == nil:
		return java, classPath
	case os.Getenv("CI") == "true":
		t.Fatalf("needs Apache %s: %v", server, err)
	default:
		t.Skipf("needs Apache %s: %v", server, err)
	}
	return "", ""
}

// jars searches below the module's folder.
func jars(server, folder, mainJar string) (classPath string, err error) {
	dir, err := placetest.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, ".build", folder)
	if found, err := filepath.Glob(filepath.Join(path, mainJar)); err != nil || len(found) == 0 {
		return "", fmt.Errorf("no %s in %s: make test-deps fetches it where mvn and java are installed", server, path)
	}
	return filepath.Join(path, "*"), nil
}
