package placetest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/placetest"
)

func TestRoot(t *testing.T) {
	root, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module github.com/gputally/gputally\n") {
		t.Errorf("%s is not the module's folder: %v, %.60q", root, err, text)
	}
	t.Chdir(t.TempDir())
	if root, err := placetest.Root(); err == nil || !strings.Contains(err.Error(), "no go.mod") {
		t.Errorf("outside of a module: %q, %v; want an error", root, err)
	}
}

func TestFreeAddress(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(placetest.FreeAddress(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}
