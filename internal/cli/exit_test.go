package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/engine"
)

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, ExitOK},
		{t.Context(), errors.New("query: syntax error"), ExitFailed},
		{t.Context(), Quiet("2 checks failed"), ExitFailed},
		{t.Context(), fmt.Errorf("load: %w", UsageError(errors.New("x"))), ExitUsage},
		{t.Context(), fmt.Errorf("start: %w", &datadir.LockedError{}), ExitEnvironment},
		{t.Context(), fmt.Errorf("listen: %w", syscall.EADDRINUSE), ExitEnvironment},
		{t.Context(), fmt.Errorf("spool: %w", syscall.ENOSPC), ExitEnvironment},
		{t.Context(), fmt.Errorf("open: %w", os.ErrPermission), ExitEnvironment},
		{t.Context(), fmt.Errorf("open: %w", engine.ErrLibraryMissing), ExitEnvironment},
		{t.Context(), context.Canceled, ExitFailed},
		{interrupted, fmt.Errorf("query: %w", context.Canceled), ExitInterrupted},
	} {
		if got := ExitCode(c.ctx, c.err); got != c.want {
			t.Errorf("exit code of %v: got %d, want %d", c.err, got, c.want)
		}
	}
}
