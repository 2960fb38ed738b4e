package load

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/collector/spool"
)

// spoolGroup and spoolGroupBytes bound the batches that share one fsync.
const (
	spoolGroup      = 1000
	spoolGroupBytes = 8 << 20
)

// spoolWriter appends batches to a spool in groups; call flush after the last one.
type spoolWriter struct {
	sp    *spool.Spool
	wrote func(batches int) // called with the total number of spooled batches; nil: none
	group [][]byte
	bytes int
	total int
}

func (w *spoolWriter) add(ctx context.Context, encoded []byte) error {
	w.group = append(w.group, encoded)
	if w.bytes += len(encoded); len(w.group) < spoolGroup && w.bytes < spoolGroupBytes {
		return nil
	}
	return w.flush(ctx)
}

func (w *spoolWriter) flush(ctx context.Context) error {
	if len(w.group) == 0 {
		return nil
	}
	if _, err := w.sp.Append(ctx, w.group); err != nil {
		return fmt.Errorf("spool batches: %w", err)
	}
	w.total += len(w.group)
	w.group, w.bytes = w.group[:0], 0
	if w.wrote != nil {
		w.wrote(w.total)
	}
	return nil
}
