package storetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// Separate starts an engine of the test's own, with more of ClickHouse's
// configuration (elements, as XML), and gives its Unix socket. It is killed
// when the test ends: an engine with replicated tables can't be closed.
func Separate(t testing.TB, extraConfig string) (socket string) {
	t.Helper()
	Library(t)
	socket, supervisor, err := start(extraConfig)
	if err != nil {
		t.Fatalf("start a separate test engine: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = supervisor.Stop(ctx) // it says that it had to kill
		_ = os.RemoveAll(filepath.Dir(socket))
	})
	return socket
}
