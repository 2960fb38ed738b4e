package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/store"
)

const (
	selectDecisions = `
SELECT offset, kind, id, key, request, who, at, appended_at, accepted, repeats, reason, number, chain, bytes, body
FROM decisions FINAL WHERE offset >= {from:UInt64} AND offset < {to:UInt64} ORDER BY offset`

	selectInvoices = `
SELECT number, kind, tenant, period, revision, currency, total, gpu_hours, from_hour, to_hour, time_zone, price_book,
    content_sha256, usage_sha256, corrects, billed_in, reason, approval, epoch, inputs, offset, who, at,
    lower(hex(SHA256(document))) AS document_sha256
FROM invoices FINAL WHERE offset < {messages:UInt64} ORDER BY period, tenant, revision`

	selectUsage = `
SELECT number, hour, project, model, profile, profile_slices, slices, bucket, slice_ms, energy_mj
FROM invoice_usage FINAL
WHERE period = {period:String} AND tenant = {tenant:String} AND revision = {revision:UInt32}
ORDER BY hour, project, model, profile, bucket`

	selectNumbers = `SELECT DISTINCT number, period, tenant, revision FROM invoice_usage ORDER BY number, tenant`

	selectAhead = `SELECT number, offset FROM invoices FINAL WHERE offset >= {messages:UInt64} ORDER BY offset`
)

// Checks are what can be said of the rows: that they are those of the log.
func (p *Projection) Checks() []check.Check {
	return []check.Check{check.Func("R6", "decisions in ClickHouse, their copy and what was witnessed equal the log", p.check)}
}

func (p *Projection) check(ctx context.Context, res *check.Result) error {
	if err := p.deps.Decisions.Refresh(ctx); err != nil {
		return err
	}
	copied, witnessed, err := p.deps.Decisions.Compare()
	if err != nil {
		res.Fail("%v", err)
	}
	messages, err := p.checkDecisions(ctx, res)
	if err != nil {
		return err
	}
	var invoices []decisions.Decided[decisions.Invoice]
	p.deps.Decisions.View(func(s *decisions.State) { invoices = s.Invoices() })
	invoices = slices.DeleteFunc(invoices, func(e decisions.Decided[decisions.Invoice]) bool { return e.Offset >= messages })
	if err := p.checkInvoices(ctx, res, invoices, messages); err != nil {
		return err
	}
	rows, err := p.checkUsage(ctx, res, invoices)
	if err != nil {
		return err
	}
	res.Checked = messages
	p.deps.Decisions.View(func(s *decisions.State) {
		res.Say(fmt.Sprintf("%d of %d messages are projected, %d invoices and notes, %d rows of usage", messages, s.Next(), len(invoices), rows))
	})
	if copied > 0 {
		res.Say(fmt.Sprintf("the copy has %d messages", copied))
	}
	if witnessed > 0 {
		res.Say(fmt.Sprintf("witnessed %d times", witnessed))
	}
	return nil
}

// decisionWindow is how many rows are compared at a time.
const decisionWindow = 2000

// checkDecisions compares the messages that were projected, each of them, and
// says how many. What was appended since is no violation.
func (p *Projection) checkDecisions(ctx context.Context, res *check.Result) (messages int64, err error) {
	end, err := p.end(ctx)
	if err != nil || end.Count == 0 {
		return 0, err
	}
	var next int64
	p.deps.Decisions.View(func(s *decisions.State) { next = s.Next() })
	messages = min(int64(end.Last)+1, next)
	if end.Count != uint64(messages) || end.Last >= uint64(next) {
		res.Fail("decisions: %d rows up to offset %d, want one of each offset, the log's last is %d", end.Count, end.Last, next-1)
	}
	rows, window := map[uint64]decisionRow{}, int64(0)
	done := errors.New("compared")
	err = p.deps.Decisions.Walk(ctx, 0, func(e decisions.Entry) error {
		if e.Offset >= messages {
			return done
		}
		if e.Offset >= window {
			if rows, err = p.readDecisions(ctx, window, window+decisionWindow); err != nil {
				return err
			}
			window += decisionWindow
		}
		if got, want := rows[uint64(e.Offset)], rowOf(&e); got != want {
			res.Fail("decisions: offset %d is %+v, want %+v", e.Offset, brief(got), brief(want))
		}
		return nil
	})
	if err != nil && !errors.Is(err, done) {
		return 0, err
	}
	return messages, nil
}

// brief leaves out the body, which may be a whole price book.
func brief(r decisionRow) decisionRow {
	if len(r.Body) > 200 {
		r.Body = fmt.Sprintf("%d bytes with SHA-256 %s", len(r.Body), decisions.Digest([]byte(r.Body)))
	}
	return r
}

func (p *Projection) readDecisions(ctx context.Context, from, to int64) (map[uint64]decisionRow, error) {
	var rows []decisionRow
	err := p.deps.DB.Select(ctx, &rows, selectDecisions, store.Named("from", uint64(from)), store.Named("to", uint64(to)))
	if err != nil {
		return nil, err
	}
	byOffset := make(map[uint64]decisionRow, len(rows))
	for _, r := range rows {
		r.At, r.Appended = r.At.UTC(), r.Appended.UTC()
		byOffset[r.Offset] = r
	}
	return byOffset, nil
}

func (p *Projection) checkInvoices(ctx context.Context, res *check.Result, want []decisions.Decided[decisions.Invoice], messages int64) error {
	var rows []invoiceRow
	if err := p.deps.DB.Select(ctx, &rows, selectInvoices, store.Named("messages", uint64(messages))); err != nil {
		return err
	}
	got := map[string]invoiceRow{}
	for _, r := range rows {
		got[r.Number] = r
	}
	if err := p.checkAhead(ctx, res, messages); err != nil {
		return err
	}
	if len(rows) != len(want) {
		res.Fail("invoices: %d rows, want %d", len(rows), len(want))
	}
	for i := range want {
		row, err := invoiceRowOf(&want[i])
		if err != nil {
			return fmt.Errorf("read amounts of invoice %s: %w", row.Number, err)
		}
		if g := got[row.Number]; g.told() != row.told() {
			res.Fail("invoices: %s is %s, want %s", row.Number, g.told(), row.told())
		}
	}
	return nil
}

// checkAhead looks for invoices that no message is of. What a running or killed
// Project has written ahead of its message has one.
func (p *Projection) checkAhead(ctx context.Context, res *check.Result, messages int64) error {
	var ahead []struct {
		Number string `ch:"number"`
		Offset uint64 `ch:"offset"`
	}
	if err := p.deps.DB.Select(ctx, &ahead, selectAhead, store.Named("messages", uint64(messages))); err != nil {
		return err
	}
	if err := p.deps.Decisions.Refresh(ctx); err != nil {
		return err
	}
	p.deps.Decisions.View(func(s *decisions.State) {
		for _, row := range ahead {
			if i, ok := s.Invoice(row.Number); !ok || uint64(i.Offset) != row.Offset {
				res.Fail("invoices: has %q of offset %d, which the log has no invoice at", row.Number, row.Offset)
			}
		}
	})
	return nil
}

// checkUsage compares each invoice's rows with its copy in the log.
func (p *Projection) checkUsage(ctx context.Context, res *check.Result, invoices []decisions.Decided[decisions.Invoice]) (rows int, err error) {
	for n := range invoices {
		i := &invoices[n].Body
		want, err := p.copyOf(ctx, res, i)
		if err != nil {
			return rows, err
		}
		var got []usageRow
		err = p.deps.DB.Select(ctx, &got, selectUsage,
			store.Named("period", i.Period), store.Named("tenant", i.Tenant), store.Named("revision", uint32(i.Revision)))
		if err != nil {
			return rows, err
		}
		compareUsage(res, i.Number, got, want)
		rows += len(want)
	}
	return rows, p.checkNumbers(ctx, res)
}

// checkNumbers looks for usage of what is no invoice. What a running or killed
// Project has written ahead of its message is one.
func (p *Projection) checkNumbers(ctx context.Context, res *check.Result) error {
	var numbers []struct {
		Number   string `ch:"number"`
		Period   string `ch:"period"`
		Tenant   string `ch:"tenant"`
		Revision uint32 `ch:"revision"`
	}
	if err := p.deps.DB.Select(ctx, &numbers, selectNumbers); err != nil {
		return err
	}
	if err := p.deps.Decisions.Refresh(ctx); err != nil {
		return err
	}
	p.deps.Decisions.View(func(s *decisions.State) {
		for _, n := range numbers {
			if i, ok := s.Invoice(n.Number); !ok {
				res.Fail("invoice_usage: has rows of %q, which the log has no invoice of", n.Number)
			} else if i.Body.Period != n.Period || i.Body.Tenant != n.Tenant || uint32(i.Body.Revision) != n.Revision {
				res.Fail("invoice_usage: has rows of %q under tenant %q, period %s, revision %d", n.Number, n.Tenant, n.Period, n.Revision)
			}
		}
	})
	return nil
}

// copyOf reads the rows of usage of an invoice's copy, in the table's order.
func (p *Projection) copyOf(ctx context.Context, res *check.Result, i *decisions.Invoice) (rows []usageRow, err error) {
	data, err := p.deps.Decisions.Read(ctx, i.Usage)
	if errors.Is(err, decisions.ErrDocument) {
		res.Fail("%s: %v", i.Number, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = readUsage(i, data, func(row rating.Row) error {
		rows = append(rows, usageRowOf(i.Number, &row))
		return nil
	})
	if err != nil {
		res.Fail("%s: %v", i.Number, err)
		return nil, nil
	}
	slices.SortFunc(rows, func(a, b usageRow) int {
		return cmp.Or(a.Hour.Compare(b.Hour), strings.Compare(a.Project, b.Project), strings.Compare(a.Model, b.Model),
			strings.Compare(a.Profile, b.Profile), strings.Compare(a.Bucket, b.Bucket))
	})
	return rows, nil
}

func compareUsage(res *check.Result, number string, got, want []usageRow) {
	if len(got) != len(want) {
		res.Fail("invoice_usage: %s has %d rows, its copy %d", number, len(got), len(want))
		return
	}
	for n := range want {
		got[n].Hour = got[n].Hour.UTC()
		if got[n] != want[n] {
			res.Fail("invoice_usage: %s has %+v, its copy %+v", number, got[n], want[n])
		}
	}
}
