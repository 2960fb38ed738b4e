package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/cli"
)

// WithPipeline opens a ledger with its broker for one command, and stops and closes all
// of it afterwards.
func WithPipeline(ctx context.Context, s *cli.Session, open opening, do func(p *Pipeline) error) error {
	return with(ctx, s, open, (*Pipeline).open, do)
}

// WithBroker connects to the data directory's broker, or to the configured one
// where there is no --data, and closes what was opened for it.
func WithBroker(ctx context.Context, s *cli.Session, do func(p *Pipeline) error) error {
	open := Open
	if s.Data == "" {
		open = func(_ context.Context, s *cli.Session) (*Access, error) {
			cfg, err := ConfigOf(s)
			return &Access{Config: cfg}, err
		}
	}
	return with(ctx, s, open, (*Pipeline).Connect, do)
}

// opening is a way to a ledger: Open, OpenOrCreate, or one of those and a change.
type opening func(context.Context, *cli.Session) (*Access, error)

func with(ctx context.Context, s *cli.Session, open opening, connect func(*Pipeline, context.Context) error,
	do func(p *Pipeline) error,
) (err error) {
	a, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.needBroker(); err != nil {
		return err
	}
	p := NewPipeline(ctx, s, a)
	defer func() { err = errors.Join(err, p.Group.Stop()) }()
	if err := connect(p, ctx); err != nil {
		return err
	}
	return do(p)
}

// WithLedger asks the ledger in s.Data, under the mapping it was published with.
func WithLedger(ctx context.Context, s *cli.Session, ask func(*Access, *ledger.Ledger) error) error {
	return WithStore(ctx, s, func(a *Access) error {
		l, err := ledger.New(a.Config.Ledger,
			ledger.Deps{Store: a.DB, Clock: s.Clock, Log: s.Log, Registry: prometheus.NewRegistry()})
		if err != nil {
			return err
		}
		return ask(a, l)
	})
}

// WithStore opens the ledger without a broker, calls ask, and closes it.
func WithStore(ctx context.Context, s *cli.Session, ask func(a *Access) error) (err error) {
	a, err := OpenStore(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := a.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close ledger: %w", closeErr))
		}
	}()
	return ask(a)
}
