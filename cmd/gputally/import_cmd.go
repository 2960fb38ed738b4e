package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/lifecycle"
)

func (s *session) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Bring recorded history in",
		Example: examples(
			"gputally import batches FILE.jsonl --data DIR", "what collectors recorded",
			"gputally import sacct FILE --data DIR --cluster hpc", "what Slurm accounted",
			"gputally import allocations FILE.csv --data DIR --cluster lab", "who had how many GPUs, from any system",
			"gputally import prometheus --url http://prometheus:9090 --from 2026-03-01 --to 2026-04-01 --slot 15s --data DIR", "what a Prometheus kept of dcgm-exporters",
		),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.importBatchesCommand(), s.importAllocationsCommand(), s.importSacctCommand(), s.importPrometheusCommand(), s.runsCommand())
	return cmd
}

func (s *session) importBatchesCommand() *cobra.Command {
	var data string
	var future bool
	cmd := &cobra.Command{
		Use:   "batches FILE.jsonl",
		Short: "Import batches as JSON lines, one per node and slot",
		Long: "Reads what collectors would have sent, one JSON object per line, in any order, with copies. It goes the\n" +
			"same way as everything else: spool, topic, ingest, ledger; importing twice changes nothing. Bad lines are\n" +
			"listed with line and reason and the good ones go in; then the exit code is 1.",
		Example: examples(
			"gputally import batches FILE.jsonl --data DIR", "into a running or a stopped standalone, or a new directory",
		),
		Args: argumentsOfUse,
	}
	cmd.Flags().StringVar(&data, "data", "", "data `DIR`ectory, made where it is missing")
	cmd.Flags().BoolVar(&future, "allow-future", false, "take slots that begin after now")
	_ = cmd.MarkFlagRequired("data") // fails only for a flag that isn't there
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		s.resumes = true
		return s.importBatches(ctx, args[0], data, imports.Horizon{NowMS: s.clock.Now().UnixMilli(), Future: future})
	})
	return cmd
}

// importSpool is the spool of imports within the data directory.
const importSpool = "import"

func (s *session) importBatches(ctx context.Context, file, dataDir string, horizon imports.Horizon) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return usageError{fmt.Errorf("read batches: %w", err)}
	}
	defer f.Close()
	a, err := s.openOrCreate(ctx, dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	lengths, err := slotLengths(ctx, a.db)
	if err != nil {
		return err
	}
	read, err := imports.Read(f, lengths, horizon)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if len(read.Encoded) > 0 {
		if err := s.sendBatches(ctx, a, dataDir, read); err != nil {
			return err
		}
	}
	return s.reportImport(file, read)
}

// openOrCreate opens a ledger with its broker, in a new directory too.
func (s *session) openOrCreate(ctx context.Context, dataDir string) (*access, error) {
	dir, err := datadir.Open(dataDir, s.holder())
	var locked *datadir.LockedError
	if errors.As(err, &locked) {
		return s.open(ctx, dataDir, true)
	}
	if err != nil {
		return nil, err
	}
	cfg, err := s.config(dataDir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return s.startEmbedded(ctx, dir, cfg, true)
}

// sendBatches takes batches through spool and topic, and waits until they are
// in the ledger. Where no standalone runs, ingest runs here for that long.
func (s *session) sendBatches(ctx context.Context, a *access, dataDir string, read *imports.Batches) (err error) {
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	a.cfg.Ledger.KeepMapping = true
	p, err := s.newPipeline(ctx, a, group)
	if err != nil {
		return err
	}
	if a.dir != nil {
		if err := p.startIngest(); err != nil {
			return err
		}
	}
	return p.carryUnder(ctx, read.Runs, func() error {
		_, sp, err := p.newCollector(collectorOptions{
			id: importSpool, cluster: importSpool, slot: a.cfg.Cluster.Slot, policy: spool.Block,
			dir: filepath.Join(dataDir, spoolDir, importSpool),
		})
		if err != nil {
			return err
		}
		if err := s.spoolAll(ctx, sp, read.Encoded); err != nil {
			return err
		}
		if err := p.drained(ctx, sp); err != nil {
			return err
		}
		return p.settle(ctx, nil)
	})
}

func (s *session) spoolAll(ctx context.Context, sp *spool.Spool, encoded [][]byte) error {
	bar := newProgress(s.stderr, s.clock, "import")
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

func (s *session) reportImport(file string, read *imports.Batches) error {
	for _, b := range read.Bad {
		if _, err := fmt.Fprintf(s.stderr, "%s:%d: %s\n", file, b.Line, b.Reason); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(s.stdout, "%d batches imported, %d bad lines\n", len(read.Encoded), len(read.Bad)); err != nil {
		return err
	}
	if len(read.Bad) > 0 {
		return quietError{"bad lines"}
	}
	return nil
}
