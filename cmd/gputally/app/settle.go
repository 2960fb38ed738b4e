package app

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/store"
)

// Lag is how many messages ingest has yet to read.
func (p *Pipeline) Lag(ctx context.Context) (int64, error) {
	offsets, err := p.Client.Offsets(ctx, broker.TopicSamples, p.Config.Ingest.Group)
	if err != nil {
		return 0, fmt.Errorf("read lag: %w", err)
	}
	var lag int64
	for _, o := range offsets {
		lag += o.Lag()
	}
	return lag, nil
}

const (
	// SettlePoll is how often progress is looked at while something settles.
	SettlePoll = 100 * time.Millisecond
	// engineBack is how long an engine that crashed may be away: its next start
	// and the loading of its tables.
	engineBack = time.Minute
)

// Patiently repeats a step for up to a minute while its error is one that passes: the
// engine restarts after a crash, or ClickHouse is out of memory or disk.
func (p *Pipeline) Patiently(ctx context.Context, what string, do func() error) error {
	began := p.Session.Clock.Now()
	for pause := SettlePoll; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if ctx.Err() != nil || !store.Retryable(err) || p.Session.Clock.Since(began) > engineBack {
			return err
		}
		p.Session.Log.Warn("the store does not answer, trying again", "step", what, "error", err)
		if err := clock.Sleep(ctx, p.Session.Clock, pause); err != nil {
			return err
		}
	}
}

// Settle waits until ingest has read all messages of the topic, and computes every dirty
// hour of the ledger.
func (p *Pipeline) Settle(ctx context.Context) error {
	for {
		lag, err := p.Lag(ctx)
		if err != nil {
			return err
		}
		if lag == 0 {
			break
		}
		if err := clock.Sleep(ctx, p.Session.Clock, SettlePoll); err != nil {
			return err
		}
	}
	for dirty := 1; dirty > 0; {
		if err := p.Patiently(ctx, "ledger pass", func() (err error) {
			dirty, err = p.Ledger.Pass(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Drained waits until a spool has nothing left to send.
func (p *Pipeline) Drained(ctx context.Context, sp *spool.Spool) error {
	for sp.Stats().Records > 0 {
		if err := clock.Sleep(ctx, p.Session.Clock, SettlePoll); err != nil {
			return err
		}
	}
	return nil
}
