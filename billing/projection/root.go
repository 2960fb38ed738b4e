package projection

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// Deps are a Projection's dependencies; all are required.
type Deps struct {
	Decisions *decisions.Log
	DB        *store.DB
	Log       *slog.Logger
}

// Projection writes the log's rows. Several processes may call Project at the same time: they write the same rows.
type Projection struct {
	deps Deps
}

// New returns a Projection that has read nothing yet.
func New(deps Deps) *Projection {
	deps.Log = deps.Log.With("component", "projection")
	return &Projection{deps: deps}
}

// ErrForeign means that the tables have rows that don't follow from this log: they are another log's, or were
// changed. Rebuild writes them again.
var ErrForeign = errors.New("ClickHouse's tables of decisions are not this log's")

const (
	selectEnd = `
SELECT uniqExact(offset) AS count, max(offset) AS last, argMax(chain, offset) AS chain FROM decisions`

	selectAnyInvoice = "SELECT count() AS rows FROM (SELECT 1 FROM invoices LIMIT 1)"
	selectAnyUsage   = "SELECT count() AS rows FROM (SELECT 1 FROM invoice_usage LIMIT 1)"

	dropRows = "DROP PARTITION ALL"
)

// Project writes the decisions that are not projected yet, and returns the number of messages.
func (p *Projection) Project(ctx context.Context) (int64, error) {
	n, err := p.project(ctx)
	if err != nil {
		return n, fmt.Errorf("project decisions: %w", err)
	}
	return n, nil
}

func (p *Projection) project(ctx context.Context) (done int64, err error) {
	from, err := p.resume(ctx)
	if err != nil {
		return 0, err
	}
	b := new(batch)
	flush := func() error {
		n := int64(len(b.decisions))
		if err := b.insert(ctx, p.deps.DB); err != nil {
			return err
		}
		done += n
		return nil
	}
	err = p.deps.Decisions.Walk(ctx, from, func(e decisions.Entry) error {
		if i, ok := e.Body.(*decisions.Invoice); ok && e.Accepted {
			if err := p.invoice(ctx, b, &e, i); err != nil {
				return err
			}
		}
		b.decisions = append(b.decisions, decisionRowOf(&e))
		b.bytes += len(e.Record.Body)
		if b.full() {
			return flush()
		}
		return nil
	})
	return done, errors.Join(err, flush())
}

// resume returns the offset from which to continue. It clears tables without decisions: a killed Rebuild may have
// left rows in them.
func (p *Projection) resume(ctx context.Context) (int64, error) {
	end, err := p.end(ctx)
	if err != nil {
		return 0, err
	}
	if end.Count == 0 {
		if err := p.clear(ctx); err != nil {
			return 0, err
		}
	}
	if err := p.deps.Decisions.Refresh(ctx); err != nil {
		return 0, err
	}
	if end.Count == 0 {
		return 0, nil
	}
	if err := p.ours(end); err != nil {
		return 0, err
	}
	if end.Count != end.Last+1 { // a block that was distributed over servers and interrupted
		p.deps.Log.Warn("projection lacks decisions, writing all again", "there", end.Count, "last_offset", end.Last)
		return 0, nil
	}
	return int64(end.Count), nil
}

// clear deletes invoices and usage, if there are any; usually there are none, and then it needs no permission to
// alter tables.
func (p *Projection) clear(ctx context.Context) error {
	for table, count := range map[string]string{tableInvoices: selectAnyInvoice, tableUsage: selectAnyUsage} {
		var some []struct {
			Rows uint64 `ch:"rows"`
		}
		if err := p.deps.DB.Select(ctx, &some, count); err != nil {
			return err
		}
		if len(some) == 0 || some[0].Rows == 0 {
			continue
		}
		if err := p.deps.DB.Alter(ctx, table, dropRows); err != nil {
			return err
		}
	}
	return nil
}

// end is the number of projected messages, and the last of them.
type end struct {
	Count uint64 `ch:"count"`
	Last  uint64 `ch:"last"`
	Chain string `ch:"chain"`
}

func (p *Projection) end(ctx context.Context) (end, error) {
	var ends []end
	if err := p.deps.DB.Select(ctx, &ends, selectEnd); err != nil {
		return end{}, fmt.Errorf("read where the projection ends: %w", err)
	}
	if len(ends) == 0 {
		return end{}, nil
	}
	return ends[0], nil
}

// Whole returns an error if the log's copy has decisions that the log lacks (decisions.Log), or Ours returns
// ErrForeign.
func (p *Projection) Whole(ctx context.Context) error {
	foreign := p.Ours(ctx)
	if foreign != nil && !errors.Is(foreign, ErrForeign) {
		return foreign
	}
	if err := p.deps.Decisions.Whole(); err != nil || foreign == nil {
		return err
	}
	return fmt.Errorf("%w: nothing is decided until the topic has been restored from a copy "+
		"(gputally audit restore --from COPY --data DIR), or, "+
		"if the rows are wrong, gputally audit rebuild --data DIR has written them again", foreign)
}

// Ours returns ErrForeign if the last row is of a decision that is not in the log: the log lost it, or the rows are
// another log's. Decisions of the log without rows are no error.
func (p *Projection) Ours(ctx context.Context) error {
	end, err := p.end(ctx) // before the log, since other processes may decide and project meanwhile
	if err != nil {
		return err
	}
	if err := p.deps.Decisions.Refresh(ctx); err != nil || end.Count == 0 {
		return err
	}
	return p.ours(end)
}

func (p *Projection) ours(end end) error {
	switch head := p.headAt(int64(end.Last)); {
	case head.Chain == "":
		return fmt.Errorf("%w: the log has no offset %d, the rows' last one", ErrForeign, end.Last)
	case head.Chain != end.Chain:
		return fmt.Errorf("%w: chain at offset %d is %q, the log's %s", ErrForeign, end.Last, end.Chain, head.Chain)
	}
	return nil
}

// ContradictionError means that rows and log have different decisions: one of them was changed.
type ContradictionError struct {
	Offset     int64  // the first that differs
	Rows, Logs string // the chain there; empty: none
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("projected decisions and log differ from offset %d on: the chain is %q in the rows, %q in the log",
		e.Offset, e.Rows, e.Logs)
}

const selectChains = `
SELECT offset, chain FROM decisions FINAL WHERE offset >= {from:UInt64} AND offset < {to:UInt64} ORDER BY offset`

func (p *Projection) headAt(offset int64) (head decisions.Head) {
	p.deps.Decisions.View(func(s *decisions.State) { head = s.HeadAt(offset) })
	return head
}

// Agrees returns a *ContradictionError if a row has another chain than the log, whose heads headAt returns like
// decisions.State.HeadAt. Rows beyond its end, for which it returns none, agree.
func (p *Projection) Agrees(ctx context.Context, headAt func(offset int64) decisions.Head) error {
	found, err := p.contradiction(ctx, headAt)
	if err == nil && found != nil && found.Logs != "" {
		err = found
	}
	return err
}

// contradiction returns the first row whose chain is not the log's; nil: none.
func (p *Projection) contradiction(
	ctx context.Context, headAt func(offset int64) decisions.Head,
) (*ContradictionError, error) {
	end, err := p.end(ctx)
	if err != nil || end.Count == 0 {
		return nil, err
	}
	for from := uint64(0); from <= end.Last; from += chainWindow {
		var rows []struct {
			Offset uint64 `ch:"offset"`
			Chain  string `ch:"chain"`
		}
		if err := p.deps.DB.Select(ctx, &rows, selectChains, store.Named("from", from),
			store.Named("to", from+chainWindow)); err != nil {
			return nil, fmt.Errorf("read projected chain: %w", err)
		}
		for _, row := range rows {
			if log := headAt(int64(row.Offset)); log.Chain != row.Chain {
				return &ContradictionError{Offset: log.Offset, Rows: row.Chain, Logs: log.Chain}, nil
			}
		}
	}
	return nil, nil
}

// chainWindow is how many rows are compared at a time.
const chainWindow = 100_000

// Rebuild deletes all rows and projects the whole log; this is itself recorded as a decision: who, where rows and log
// ended before, and their contradiction, if any. If rows and log differ and over is false, it returns a
// *ContradictionError and changes nothing: the rows may be the only remaining record of the decisions.
func (p *Projection) Rebuild(ctx context.Context, who string, over bool) (int64, error) {
	if err := p.decideRebuild(ctx, who, over); err != nil {
		return 0, fmt.Errorf("rebuild projection: %w", err)
	}
	return p.remake(ctx)
}

func (p *Projection) remake(ctx context.Context) (int64, error) {
	if err := p.deps.DB.Alter(ctx, tableDecisions, dropRows); err != nil {
		return 0, fmt.Errorf("rebuild projection: %w", err)
	}
	return p.Project(ctx)
}

func (p *Projection) decideRebuild(ctx context.Context, who string, over bool) error {
	if err := p.deps.Decisions.Refresh(ctx); err != nil {
		return err
	}
	found, err := p.contradiction(ctx, p.headAt)
	if err == nil && found != nil && !over {
		err = found
	}
	if err != nil {
		return err
	}
	before, err := p.end(ctx)
	if err != nil {
		return err
	}
	detail := "nothing was projected"
	if before.Count > 0 {
		detail = "the rows' head was " + decisions.Head{Offset: int64(before.Last), Chain: before.Chain}.String()
	}
	p.deps.Decisions.View(func(s *decisions.State) { detail += "; the log's head is " + s.Head().String() })
	if found != nil {
		detail += "; " + found.Error()
	}
	entry := decisions.Audit{Action: AuditRebuild, Subject: "projection", Detail: detail}
	key := "rebuild/" + rand.Text()
	_, err = p.deps.Decisions.Append(ctx, decisions.KindAudit, key, decisions.Digest([]byte(key)), who, &entry)
	return err
}

// AuditRebuild is the action of a rebuild's audit entry.
const AuditRebuild = "rebuild"

// invoice writes the usage, and adds the invoice to the batch.
func (p *Projection) invoice(ctx context.Context, b *batch, e *decisions.Entry, i *decisions.Invoice) error {
	document, err := p.read(ctx, i.Number, "content", i.Content)
	if err != nil {
		return err
	}
	copied, err := p.read(ctx, i.Number, "usage", i.Usage)
	if err != nil {
		return err
	}
	row, err := invoiceRowOf(e.Offset, e.Record.Who, e.Record.At, i, string(document))
	if err != nil {
		return err
	}
	b.invoices = append(b.invoices, row)
	b.bytes += len(document)
	if err := readUsage(i, copied, func(rating.Row) error { return nil }); err != nil {
		p.deps.Log.Error("usage of an invoice can't be projected", "number", i.Number, "error", err)
		return nil
	}
	var rows []usageRow
	flush := func() error {
		err := tables.Insert(ctx, p.deps.DB, tableUsage, rows...)
		rows = rows[:0]
		return err
	}
	err = readUsage(i, copied, func(row rating.Row) error {
		if rows = append(rows, usageRowOf(i, &row)); len(rows) >= usageRows {
			return flush()
		}
		return nil
	})
	return errors.Join(err, flush())
}

// read returns nil, nil if a document doesn't match its record, and logs that.
func (p *Projection) read(ctx context.Context, number, what string, d decisions.Document) ([]byte, error) {
	data, err := p.deps.Decisions.Read(ctx, d)
	if errors.Is(err, decisions.ErrDocument) {
		p.deps.Log.Error("document of an invoice can't be projected", "number", number, "document", what, "error", err)
		return nil, nil
	}
	return data, err
}

// readUsage calls visit for the rows of usage of a copy; an empty one has none.
func readUsage(i *decisions.Invoice, copied []byte, visit func(rating.Row) error) error {
	if len(copied) == 0 {
		return nil
	}
	return rating.ReadCopy(i.Tenant, bytes.NewReader(copied), func(fact rating.Fact) error {
		if !fact.Usage {
			return nil
		}
		return visit(fact.Row)
	})
}
