package projection

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
	"github.com/gputally/gputally/internal/store"
)

const (
	selectDecisions = `SELECT * FROM decisions FINAL WHERE offset >= {from:UInt64} AND offset < {to:UInt64}`

	selectInvoices = `
SELECT * REPLACE (toString(total) AS total, toString(gpu_hours) AS gpu_hours, lower(hex(SHA256(document))) AS document)
FROM invoices FINAL WHERE offset < {messages:UInt64}`

	selectUsage = `
SELECT * FROM invoice_usage FINAL
WHERE period = {period:String} AND tenant = {tenant:String} AND revision = {revision:UInt32}`

	// selectLinks reads what rows refer to, beyond what is compared row by row.
	selectLinks = `
SELECT 'invoices' AS place, number, period, tenant, revision, offset FROM invoices FINAL
WHERE offset >= {messages:UInt64}
UNION ALL
SELECT DISTINCT 'invoice_usage' AS place, number, period, tenant, revision, toUInt64(0) AS offset FROM invoice_usage
ORDER BY place, number, tenant`
)

// Checks returns the check that the rows equal the log.
func (p *Projection) Checks() []check.Check {
	return []check.Check{check.Func("R6", "decisions in ClickHouse, their copy and what was witnessed equal the log",
		p.check)}
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
	invoices = slices.DeleteFunc(invoices,
		func(e decisions.Decided[decisions.Invoice]) bool { return e.Offset >= messages })
	if err := p.checkInvoices(ctx, res, invoices, messages); err != nil {
		return err
	}
	rows, err := p.checkUsage(ctx, res, invoices)
	if err != nil {
		return err
	}
	if err := p.checkLinks(ctx, res, messages); err != nil {
		return err
	}
	res.Checked = messages
	p.deps.Decisions.View(func(s *decisions.State) {
		res.Say(fmt.Sprintf("%d of %d messages are projected, %d invoices and notes, %d rows of usage", messages, s.Next(),
			len(invoices), rows))
	})
	if copied > 0 {
		res.Say("the copy has " + plural.Of(copied, "message"))
	}
	if witnessed > 0 {
		res.Say(fmt.Sprintf("witnessed %d times", witnessed))
	}
	return nil
}

// compare compares the rows of a place with those that the log makes, by key.
func compare[R, K comparable](res *check.Result, place string, got, want []R, key func(R) K) {
	rows := make(map[K]R, len(got))
	for _, r := range got {
		rows[key(r)] = r
	}
	if len(got) != len(want) {
		res.Fail("%s: %d rows, want %d", place, len(got), len(want))
	}
	for _, w := range want {
		if g, ok := rows[key(w)]; !ok {
			res.Fail("%s: %v is missing", place, key(w))
		} else if g != w {
			res.Fail("%s: %v: %s", place, key(w), differences(g, w))
		}
	}
}

// differences lists the columns in which two rows differ. A value may be a whole price book: only its beginning is
// shown.
func differences(got, want any) string {
	var all []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if a, b := g.Field(i).Interface(), w.Field(i).Interface(); a != b {
			all = append(all, fmt.Sprintf("%s is %.200s, want %.200s", g.Type().Field(i).Tag.Get("ch"), fmt.Sprint(a),
				fmt.Sprint(b)))
		}
	}
	return strings.Join(all, "; ")
}

// decisionWindow is how many rows are compared at a time.
const decisionWindow = 2000

// checkDecisions compares all projected messages, and returns their number. Messages appended since are ignored.
func (p *Projection) checkDecisions(ctx context.Context, res *check.Result) (messages int64, err error) {
	end, err := p.end(ctx)
	if err != nil || end.Count == 0 {
		return 0, err
	}
	var next int64
	p.deps.Decisions.View(func(s *decisions.State) { next = s.Next() })
	if messages = min(int64(end.Last)+1, next); end.Last >= uint64(next) {
		res.Fail("decisions: rows go to offset %d, the log to %d", end.Last, next-1)
	}
	var want []decisionRow
	return messages, p.deps.Decisions.Walk(ctx, 0, func(e decisions.Entry) error {
		if e.Offset >= messages {
			return nil
		}
		want = append(want, decisionRowOf(&e))
		if len(want) < decisionWindow && e.Offset < messages-1 {
			return nil
		}
		var got []decisionRow
		if err := p.deps.DB.Select(ctx, &got, selectDecisions, store.Named("from", want[0].Offset),
			store.Named("to", uint64(e.Offset)+1)); err != nil {
			return err
		}
		compare(res, tableDecisions, got, want, func(r decisionRow) uint64 { return r.Offset })
		want = want[:0]
		return nil
	})
}

func (p *Projection) checkInvoices(
	ctx context.Context, res *check.Result, invoices []decisions.Decided[decisions.Invoice], messages int64,
) error {
	var got, want []invoiceRow
	if err := p.deps.DB.Select(ctx, &got, selectInvoices, store.Named("messages", uint64(messages))); err != nil {
		return err
	}
	for n := range invoices {
		e := &invoices[n]
		row, err := invoiceRowOf(e.Offset, e.Who, e.At, &e.Body, e.Body.Content.SHA256)
		if err != nil {
			return err
		}
		want = append(want, row)
	}
	compare(res, tableInvoices, got, want, func(r invoiceRow) string { return r.Number })
	return nil
}

// checkUsage compares each invoice's rows with its copy in the log.
func (p *Projection) checkUsage(
	ctx context.Context, res *check.Result, invoices []decisions.Decided[decisions.Invoice],
) (rows int, err error) {
	type key struct {
		hour                            time.Time
		project, model, profile, bucket string
	}
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
		compare(res, tableUsage+" of "+i.Number, got, want,
			func(r usageRow) key { return key{r.Hour, r.Project, r.Model, r.Profile, r.Bucket} })
		rows += len(want)
	}
	return rows, nil
}

// copyOf reads the rows of usage of an invoice's copy.
func (p *Projection) copyOf(ctx context.Context, res *check.Result, i *decisions.Invoice) (rows []usageRow, err error) {
	data, err := p.deps.Decisions.Read(ctx, i.Usage)
	if err != nil && !errors.Is(err, decisions.ErrDocument) {
		return nil, err
	}
	if err == nil {
		err = readUsage(i, data, func(row rating.Row) error {
			rows = append(rows, usageRowOf(i, &row))
			return nil
		})
	}
	if err != nil {
		res.Fail("%s: %v", i.Number, err)
		return nil, nil
	}
	return rows, nil
}

// checkLinks finds rows of invoices and usage that the log doesn't have. Rows that a running or killed Project has
// written before their message are in the log.
func (p *Projection) checkLinks(ctx context.Context, res *check.Result, messages int64) error {
	var links []struct {
		Place    string `ch:"place"`
		Number   string `ch:"number"`
		Period   string `ch:"period"`
		Tenant   string `ch:"tenant"`
		Revision uint32 `ch:"revision"`
		Offset   uint64 `ch:"offset"`
	}
	if err := p.deps.DB.Select(ctx, &links, selectLinks, store.Named("messages", uint64(messages))); err != nil {
		return err
	}
	if err := p.deps.Decisions.Refresh(ctx); err != nil {
		return err
	}
	p.deps.Decisions.View(func(s *decisions.State) {
		for _, l := range links {
			e, ok := s.Invoice(l.Number)
			i := &e.Body
			if !ok || i.Period != l.Period || i.Tenant != l.Tenant || uint32(i.Revision) != l.Revision ||
				l.Place == tableInvoices && uint64(e.Offset) != l.Offset {
				res.Fail("%s: has rows of %q under tenant %q, period %s, revision %d, offset %d, which the log has no invoice of",
					l.Place, l.Number, l.Tenant, l.Period, l.Revision, l.Offset)
			}
		}
	})
	return nil
}
