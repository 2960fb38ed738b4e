package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/store/engine"
)

// helperEnv turns the test binary into a helper process on that directory.
const (
	helperEnv       = "GPULEDGER_TEST_ENGINE_DIR"
	helperSocketEnv = "GPULEDGER_TEST_ENGINE_SOCKET"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		os.Exit(helper(dir, os.Getenv(helperSocketEnv)))
	}
	os.Exit(m.Run())
}

func helper(dir, socket string) int {
	err := engine.Serve(context.Background(), engine.Options{
		Dir: dir, Socket: socket, Stdin: os.Stdin, MemoryBytes: 1 << 30, Threads: 2, LockWait: 300 * time.Millisecond, Drain: 300 * time.Millisecond,
		Library: os.Getenv(engine.LibraryEnv),
		Log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
