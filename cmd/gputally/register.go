package main

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
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/lifecycle"
)

// openRegister reads the decisions and puts the register of invoices on them.
func (p *pipeline) openRegister(ctx context.Context) error {
	book, err := p.cfg.Billing.book()
	if err != nil {
		return err
	}
	opt := p.decisionOptions()
	opt.CopyDir, opt.CopyReadOnly = p.copyDir()
	if p.decisions, err = decisions.Open(ctx, p.client, opt); err != nil {
		return err
	}
	p.group.OnStop("decisions", p.decisions.Close)
	p.projection = projection.New(projection.Deps{Decisions: p.decisions, DB: p.access.db, Log: p.s.log})
	p.register, err = invoice.NewRegister(invoice.RegisterDeps{
		DB: cmp.Or(p.finance, p.access.db), Decisions: p.decisions, Book: book, Closed: p.closed, Clock: p.s.clock, Approvals: p.cfg.Billing.Approvals, Whole: p.projection.Whole,
	})
	return err
}

func (p *pipeline) decisionOptions() decisions.Options {
	return decisions.Options{
		Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
		Witness: p.cfg.Decisions.Witness, PriceBooksPerDay: p.cfg.Decisions.PriceBooksPerDay,
	}
}

// copyName is the folder in the data directory that decisions are copied to.
const copyName = datadir.CopyDir

// copyDir is where the decisions are copied to, by this process or, where a
// standalone serves the directory, by that one; empty: nowhere.
func (p *pipeline) copyDir() (dir string, readOnly bool) {
	dir = p.cfg.Decisions.CopyDir
	if dir == "" && p.access.data != "" {
		dir = filepath.Join(p.access.data, copyName)
	}
	if dir == decisions.NoCopy {
		return "", false
	}
	return dir, p.access.data != "" && p.access.dir == nil
}

// financeConnections are few, and enough: they bound what finance may ask of
// ClickHouse at the same time.
const financeConnections = 8

// openFinance opens a pool of connections for what people ask, so that ingest,
// ledger and readiness never wait for theirs.
func (p *pipeline) openFinance(ctx context.Context) error {
	options := p.access.options
	options.MaxOpenConns = financeConnections
	db, err := openLedger(ctx, options)
	if err != nil {
		return err
	}
	p.finance = db
	p.group.OnStop("finance's connections", db.Close)
	return nil
}

// connectRegister connects to the decisions alone; the ledger is asked which
// hours are closed.
func (p *pipeline) connectRegister(ctx context.Context) error {
	if err := p.newClient(); err != nil {
		return err
	}
	if err := p.openLedger(); err != nil {
		return err
	}
	if err := p.openFinance(ctx); err != nil {
		return err
	}
	if err := p.openRegister(ctx); err != nil {
		return err
	}
	p.warnOfPrices(ctx)
	return nil
}

// warnOfPrices says where an edited price book has no effect: once one was
// published, which the first finalised invoice does, the file of billing.prices
// counts for nothing until it is published too.
func (p *pipeline) warnOfPrices(ctx context.Context) {
	if p.cfg.Billing.Prices == "" {
		return
	}
	configured, err := p.cfg.Billing.book()
	inForce, inForceErr := p.register.Book(ctx)
	if err != nil || inForceErr != nil || configured.Hash == inForce.Hash {
		return // who needs the book reports what is wrong with it
	}
	p.s.log.WarnContext(ctx, "billing.prices is not the price book in force: gputally prices load publishes it",
		"file", configured.Name, "sha256", configured.Hash, "in_force", inForce.Name, "in_force_sha256", inForce.Hash)
}

// closed fails with an *invoice.OpenHoursError unless the hours before to are
// closed (R3): old enough, nothing for them waits in the topic, and the ledger
// covers the journal.
func (p *pipeline) closed(ctx context.Context, to time.Time) error {
	open := func(format string, args ...any) error {
		return &invoice.OpenHoursError{To: to, Why: fmt.Sprintf(format, args...)}
	}
	closeAfter := p.cfg.Ledger.CloseAfter
	if ends := to.Add(closeAfter); p.s.clock.Now().Before(ends) {
		return open("late data may come until %s (ledger.close_after is %s)", ends.UTC().Format(time.RFC3339), closeAfter)
	}
	until, err := p.ledger.ClosedUntil(ctx)
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
func (p *pipeline) ingested(ctx context.Context, before time.Time, open func(string, ...any) error) error {
	ends, err := p.client.OffsetsAt(ctx, broker.TopicSamples, before)
	if err != nil {
		return err
	}
	offsets, err := p.client.Offsets(ctx, broker.TopicSamples, p.cfg.Ingest.Group)
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

// withRegister opens the ledger, its broker and the decisions for one command. It
// fails where the decisions lack what their copy has: a command would answer as
// if it had never been decided.
func (s *session) withRegister(ctx context.Context, dataDir string, ask func(*pipeline) error) (err error) {
	return s.withDecisions(ctx, dataDir, func(p *pipeline) error {
		if err := p.decisions.Whole(); err != nil {
			return err
		}
		return ask(p)
	})
}

// withDecisions is withRegister for those who look at the decisions as they are.
func (s *session) withDecisions(ctx context.Context, dataDir string, ask func(*pipeline) error) (err error) {
	a, err := s.open(ctx, dataDir, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.broker == "" && len(a.cfg.Kafka.Brokers) == 0 {
		return usageError{errors.New("kafka.brokers: is empty: what was decided about invoices and prices is in Kafka; name the brokers in the configuration")}
	}
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	a.cfg.Ledger.KeepMapping = true
	p, err := s.newPipeline(ctx, a, group)
	if err != nil {
		return err
	}
	if err := p.openRegister(ctx); err != nil {
		return err
	}
	before := p.decided()
	err = ask(p)
	if p.decided() == before {
		return errors.Join(err, p.projection.Ours(ctx)) // a command that only reads writes nothing
	}
	_, projectErr := p.projection.Project(ctx)
	return errors.Join(err, projectErr)
}

// decided is how many messages of the decisions were read.
func (p *pipeline) decided() (messages int64) {
	p.decisions.View(func(s *decisions.State) { messages = s.Next() })
	return messages
}
