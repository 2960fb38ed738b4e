// Package load imports data into a ledger, or again: batches of a file, allocation records, sacct, the history of a
// Prometheus, the samples topic, dead letters.
//
// All data passes through spool and topic and is ingested like live data, under a run that authorises its sender.
package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/plural"
)

// ImportBatches imports the batches of a file of JSON lines, and waits until they are in the ledger. future accepts
// slots that begin after now.
func ImportBatches(ctx context.Context, s *cli.Session, file string, future bool) error {
	f, err := os.Open(file)
	if err != nil {
		return cli.UsageError(fmt.Errorf("read batches: %w", err))
	}
	defer f.Close()
	var read *imports.Batches
	err = app.WithPipeline(ctx, s, app.OpenOrCreate, func(p *app.Pipeline) error {
		lengths, err := app.SlotLengths(ctx, p.Access.DB)
		if err != nil {
			return err
		}
		if read, err = imports.Read(f, lengths,
			imports.Horizon{NowMS: s.Clock.Now().UnixMilli(), Future: future}); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		if len(read.Encoded) == 0 {
			return nil
		}
		return p.CarryUnder(ctx, read.Runs, func() error {
			c, err := newCarrier(p)
			if err != nil {
				return err
			}
			if err := c.spoolAll(ctx, read.Encoded); err != nil {
				return err
			}
			return c.arrive(ctx)
		})
	})
	if err != nil {
		return err
	}
	return reportImport(s, file, read)
}

// carrier sends the batches of an import through spool and topic into the ledger. If no standalone is running, ingest
// runs in this process until then.
type carrier struct {
	p  *app.Pipeline
	sp *spool.Spool
}

func newCarrier(p *app.Pipeline) (c carrier, err error) {
	if err := p.StartIngestHere(); err != nil {
		return c, err
	}
	c.p = p
	_, c.sp, err = p.NewCollector(app.CollectorOptions{
		ID: app.ImportSpool, Cluster: app.ImportSpool, Slot: time.Hour, Policy: spool.Block,
		Dir: filepath.Join(p.Session.Data, datadir.SpoolDir, app.ImportSpool),
	})
	return c, err
}

// arrive waits until everything in the spool is in the ledger.
func (c carrier) arrive(ctx context.Context) error {
	if err := c.p.Drained(ctx, c.sp); err != nil {
		return err
	}
	return c.p.Settle(ctx)
}

// writer returns the progress bar of an import, and a writer to the spool that advances it.
func (c carrier) writer(total int) (*cli.Progress, *spoolWriter) {
	bar := cli.NewProgress(c.p.Session.Stderr, c.p.Session.Clock, "import")
	return bar, &spoolWriter{sp: c.sp, wrote: func(n int) { bar.Set(int64(n), int64(total)) }}
}

func (c carrier) spoolAll(ctx context.Context, encoded [][]byte) error {
	bar, w := c.writer(len(encoded))
	for _, batch := range encoded {
		if err := w.add(ctx, batch); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	bar.Done(plural.Of(len(encoded), "batch") + " spooled")
	return nil
}

func reportImport(s *cli.Session, file string, read *imports.Batches) error {
	for _, b := range read.Bad {
		s.Sayf("%s:%d: %s\n", file, b.Line, cli.Printable(b.Reason))
	}
	if err := s.Writef("%s imported, %s\n", plural.Of(len(read.Encoded), "batch"),
		plural.Of(len(read.Bad), "bad line")); err != nil {
		return err
	}
	if len(read.Bad) > 0 {
		return cli.Quiet("bad lines")
	}
	return nil
}
