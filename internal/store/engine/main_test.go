package engine_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/store/engine"
)

// helperEnv turns the test binary into a helper process on that directory.
const (
	helperEnv       = "GPUTALLY_TEST_ENGINE_DIR"
	helperSocketEnv = "GPUTALLY_TEST_ENGINE_SOCKET"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		if err := helper(dir, os.Getenv(helperSocketEnv)); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

func helper(dir, socket string) error {
	return engine.Serve(context.Background(), engine.Options{
		Dir: dir, Socket: socket, Stdin: os.Stdin, Library: os.Getenv(engine.LibraryEnv),
		MemoryBytes: 1 << 30, Threads: 2,
		LockWait: 300 * time.Millisecond, Drain: 300 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}
