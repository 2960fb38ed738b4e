package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/lifecycle"
)

func ImportBatches(ctx context.Context, s *cli.Session, file, dataDir string, horizon imports.Horizon) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return cli.UsageError(fmt.Errorf("read batches: %w", err))
	}
	defer f.Close()
	a, err := app.OpenOrCreate(ctx, s, dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	lengths, err := app.SlotLengths(ctx, a.DB)
	if err != nil {
		return err
	}
	read, err := imports.Read(f, lengths, horizon)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if len(read.Encoded) > 0 {
		if err := sendBatches(ctx, s, a, dataDir, read); err != nil {
			return err
		}
	}
	return reportImport(s, file, read)
}

// sendBatches takes batches through spool and topic, and waits until they are
// in the ledger. Where no standalone runs, ingest runs here for that long.
func sendBatches(ctx context.Context, s *cli.Session, a *app.Access, dataDir string, read *imports.Batches) (err error) {
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.Clock, Log: s.Log, StopTimeout: app.StopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	a.Config.Ledger.KeepMapping = true
	p, err := app.NewPipeline(ctx, s, a, group)
	if err != nil {
		return err
	}
	if a.Dir != nil {
		if err := p.StartIngest(); err != nil {
			return err
		}
	}
	return p.CarryUnder(ctx, read.Runs, func() error {
		_, sp, err := p.NewCollector(app.CollectorOptions{
			Id: app.ImportSpool, Cluster: app.ImportSpool, Slot: a.Config.Cluster.Slot, Policy: spool.Block,
			Dir: filepath.Join(dataDir, app.SpoolDir, app.ImportSpool),
		})
		if err != nil {
			return err
		}
		if err := spoolAll(ctx, s, sp, read.Encoded); err != nil {
			return err
		}
		if err := p.Drained(ctx, sp); err != nil {
			return err
		}
		return p.Settle(ctx, nil)
	})
}

func spoolAll(ctx context.Context, s *cli.Session, sp *spool.Spool, encoded [][]byte) error {
	bar := cli.NewProgress(s.Stderr, s.Clock, "import")
	w := spoolWriter{sp: sp, wrote: func(n int) { bar.Set(int64(n), int64(len(encoded))) }}
	for _, batch := range encoded {
		if err := w.add(ctx, batch); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	bar.Done(strconv.Itoa(len(encoded)) + " batches spooled")
	return nil
}

func reportImport(s *cli.Session, file string, read *imports.Batches) error {
	for _, b := range read.Bad {
		if _, err := fmt.Fprintf(s.Stderr, "%s:%d: %s\n", file, b.Line, b.Reason); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(s.Stdout, "%d batches imported, %d bad lines\n", len(read.Encoded), len(read.Bad)); err != nil {
		return err
	}
	if len(read.Bad) > 0 {
		return cli.Quiet("bad lines")
	}
	return nil
}
