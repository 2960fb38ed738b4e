package storetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// Separate starts an engine for one test, with more of ClickHouse's configuration (elements, as XML), and returns its
// Unix socket. It is killed when the test ends: an engine with replicated tables can't be closed.
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
		_ = supervisor.Stop(ctx) // its error is that it had to kill
		_ = os.RemoveAll(filepath.Dir(socket))
	})
	return socket
}
