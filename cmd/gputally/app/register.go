package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/projection"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
)

// OpenRegister reads the decisions and puts the register of invoices on them.
func (p *Pipeline) OpenRegister(ctx context.Context) error {
	book, err := p.Config.Billing.Book()
	if err != nil {
		return err
	}
	opt := p.decisionOptions()
	opt.CopyDir, opt.CopyReadOnly = p.copyDir()
	if p.Decisions, err = decisions.Open(ctx, p.Client, opt); err != nil {
		return err
	}
	p.Group.OnStop("decisions", p.Decisions.Close)
	p.Projection = projection.New(projection.Deps{Decisions: p.Decisions, DB: p.Access.DB, Log: p.Session.Log})
	p.Register, err = invoice.NewRegister(invoice.RegisterDeps{
		DB: cmp.Or(p.finance, p.Access.DB), Decisions: p.Decisions, Book: book, Closed: p.closed, Clock: p.Session.Clock,
		Approvals: p.Config.Billing.Approvals, Whole: p.Projection.Whole,
	})
	return err
}

func (p *Pipeline) decisionOptions() decisions.Options {
	return decisions.Options{
		Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry,
		Witness: p.Config.Decisions.Witness, PriceBooksPerDay: p.Config.Decisions.PriceBooksPerDay,
	}
}

// copyDir is where the decisions are copied to, by this process or, where a
// standalone serves the directory, by that one; empty: nowhere.
func (p *Pipeline) copyDir() (dir string, readOnly bool) {
	dir = p.Config.Decisions.CopyDir
	if dir == "" && p.Access.data != "" {
		dir = filepath.Join(p.Access.data, datadir.CopyDir)
	}
	if dir == decisions.NoCopy {
		return "", false
	}
	return dir, p.Access.data != "" && p.Access.Dir == nil
}

// financeConnections are few, and enough: they bound what finance may ask of
// ClickHouse at the same time.
const financeConnections = 8

// openFinance opens a pool of connections for what people ask, so that ingest,
// ledger and readiness never wait for theirs.
func (p *Pipeline) openFinance(ctx context.Context) error {
	options := p.Access.options
	options.MaxOpenConns = financeConnections
	db, err := openLedger(ctx, options)
	if err != nil {
		return err
	}
	p.finance = db
	p.Group.OnStop("finance's connections", db.Close)
	return nil
}

// connectRegister connects to the decisions alone; the ledger is asked which
// hours are closed.
func (p *Pipeline) connectRegister(ctx context.Context) error {
	if err := p.newClient(); err != nil {
		return err
	}
	if err := p.newLedger(); err != nil {
		return err
	}
	if err := p.openFinance(ctx); err != nil {
		return err
	}
	if err := p.OpenRegister(ctx); err != nil {
		return err
	}
	p.WarnOfPrices(ctx)
	return nil
}

// WarnOfPrices says where an edited price book has no effect: once one was
// published, which the first finalised invoice does, the file of billing.prices
// counts for nothing until it is published too.
func (p *Pipeline) WarnOfPrices(ctx context.Context) {
	if p.Config.Billing.Prices == "" {
		return
	}
	configured, err := p.Config.Billing.Book()
	inForce, inForceErr := p.Register.Book(ctx)
	if err != nil || inForceErr != nil || configured.Hash == inForce.Hash {
		return // who needs the book reports what is wrong with it
	}
	p.Session.Log.WarnContext(ctx, "billing.prices is not the price book in force: gputally prices load publishes it",
		"file", configured.Name, "sha256", configured.Hash, "in_force", inForce.Name, "in_force_sha256", inForce.Hash)
}

// closed fails with an *invoice.OpenHoursError unless the hours before to are
// closed (R3): old enough, nothing for them waits in the topic, and the ledger
// covers the journal.
func (p *Pipeline) closed(ctx context.Context, to time.Time) error {
	open := func(format string, args ...any) error {
		return &invoice.OpenHoursError{To: to, Why: fmt.Sprintf(format, args...)}
	}
	closeAfter := p.Config.Ledger.CloseAfter
	if ends := to.Add(closeAfter); p.Session.Clock.Now().Before(ends) {
		return open("late data may come until %s (ledger.close_after is %s)", ends.UTC().Format(time.RFC3339), closeAfter)
	}
	until, err := p.Ledger.ClosedUntil(ctx)
	if err != nil {
		return fmt.Errorf("read closed hours: %w", err)
	}
	for cluster, end := range until {
		if end.Before(to) {
			return open("the ledger of cluster %q is closed until %s", cluster, end.UTC().Format(time.RFC3339))
		}
	}
	return p.ingested(ctx, to.Add(closeAfter), open)
}

// ingested fails unless all that was appended before an instant is journalled.
func (p *Pipeline) ingested(ctx context.Context, before time.Time, open func(string, ...any) error) error {
	ends, err := p.Client.OffsetsAt(ctx, broker.TopicSamples, before)
	if err != nil {
		return err
	}
	offsets, err := p.Client.Offsets(ctx, broker.TopicSamples, p.Config.Ingest.Group)
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if end := ends[o.Partition]; end > o.First && o.Committed < end {
			return open("%d messages of partition %d, that came before %s, wait for ingest",
				end-max(o.Committed, o.First), o.Partition, before.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// WithRegister opens the ledger, its broker and the decisions for one command. It
// fails where the decisions lack what their copy has: a command would answer as
// if it had never been decided.
func WithRegister(ctx context.Context, s *cli.Session, ask func(*Pipeline) error) (err error) {
	return WithDecisions(ctx, s, func(p *Pipeline) error {
		if err := p.Decisions.Whole(); err != nil {
			return err
		}
		return ask(p)
	})
}

// WithDecisions is WithRegister for those who look at the decisions as they are.
func WithDecisions(ctx context.Context, s *cli.Session, ask func(*Pipeline) error) (err error) {
	return WithPipeline(ctx, s, Open, func(p *Pipeline) error {
		if err := p.OpenRegister(ctx); err != nil {
			return err
		}
		before := p.decided()
		err := ask(p)
		if p.decided() == before {
			return errors.Join(err, p.Projection.Ours(ctx)) // a command that only reads writes nothing
		}
		_, projectErr := p.Projection.Project(ctx)
		return errors.Join(err, projectErr)
	})
}

// decided is how many messages of the decisions were read.
func (p *Pipeline) decided() (messages int64) {
	p.Decisions.View(func(s *decisions.State) { messages = s.Next() })
	return messages
}
