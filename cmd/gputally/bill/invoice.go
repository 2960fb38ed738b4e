// Package bill implements the commands of finance: invoices, notes, approvals, price books, simulations, policy and
// exports. It calls package billing, which has the rules, and prints.
package bill

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/usage"
)

// tellQuarantined prints to stderr which tenants' drafts lack hours, and why.
func tellQuarantined(s *cli.Session, month *invoice.Month) {
	for i := range month.Invoices {
		if in := &month.Invoices[i]; in.Quarantined != "" {
			s.Sayf("tenant %q can't be finalised: %s\n", in.Tenant, in.Quarantined)
		}
	}
	if says := month.Platform.Quarantined; says != "" {
		s.Sayf("the platform's account is not complete: %s\n", says)
	}
}

func invoiceTable(month *invoice.Month, forReading bool) cli.Table {
	t := cli.Table{Columns: cli.Columns("number", "kind", "tenant", "period", "status", "currency",
		"total exact", "content_sha256 wide")}
	for _, inv := range month.Invoices {
		tenant, content := inv.Tenant, inv.Content
		if forReading {
			tenant, content = ask.ShownTenant(usage.KindOwner, tenant), content[:16] // which --expect takes
		}
		t.Rows = append(t.Rows,
			[]string{inv.Number, inv.Kind, tenant, inv.Period, inv.Status, inv.Currency, inv.Total.String(), content})
	}
	if forReading {
		t.Rows = append(t.Rows,
			[]string{"", "", ask.PlatformName, month.Period, "list value, not billed", month.Currency, platformKeeps(month), ""})
	}
	return t
}

// platformKeeps is the list value of platform time that no tenant is charged for: all of it less what was distributed
// to tenants.
func platformKeeps(month *invoice.Month) string {
	return cli.Cents(month.Platform.List.Add(month.Platform.Distribution.Decimal))
}

// printInvoices prints the documents of a tenant's month, or one revision, which JSON and CSV require.
func printInvoices(s *cli.Session, documents []invoice.Invoice, revision int, head func(number string) string) error {
	if revision >= len(documents) {
		return cli.UsageError(fmt.Errorf("--revision %d: %s has revisions 0 to %d", revision, documents[0].Number,
			len(documents)-1))
	}
	if revision < 0 && s.Format != cli.AsTable {
		revision = 0
	}
	if revision >= 0 {
		documents = documents[revision : revision+1]
	}
	for i := range documents {
		if i > 0 {
			if err := s.Writef("\n"); err != nil {
				return err
			}
		}
		if err := printInvoice(s, &documents[i], head(documents[i].Number)); err != nil {
			return err
		}
	}
	return nil
}

func printInvoice(s *cli.Session, inv *invoice.Invoice, head string) error {
	switch s.Format {
	case cli.AsJSON:
		return printDocument(s, inv)
	case cli.AsCSV:
		return s.Print(invoiceLines(inv))
	}
	hours := func(of rating.Money) string { return cli.Grouped(cli.Fixed(of.String(), 1)) }
	err := s.Writef(
		"%s %s (%s)\n%sTenant     %s\nPeriod     %s to %s, %s\nContent    %s\nGPU-hours  %s: active %s, idle %s, "+
			"unproven %s\n\n",
		kindWords[inv.Kind], cli.Printable(inv.Number), inv.Status, correcting(inv), cli.Printable(inv.Tenant), inv.From,
		inv.To, inv.TimeZone, inv.Content, hours(inv.GPUHours), hours(inv.Buckets.Active),
		hours(inv.Buckets.Idle), hours(inv.Buckets.Unproven))
	if err != nil {
		return err
	}
	if err := s.Print(invoiceLines(inv)); err != nil {
		return err
	}
	err = s.Heading("Total", " "+cli.Grouped(inv.Total.String())+" "+inv.Currency)
	if err == nil && head != "" {
		err = s.Writef("Decisions  %s (gputally audit --expect)\n", head)
	}
	return err
}

// kindWords are the titles of the kinds of documents.
var kindWords = map[string]string{
	invoice.KindInvoice: "Invoice", invoice.KindCreditNote: "Credit note", invoice.KindDebitNote: "Debit note",
}

// correcting describes which document a note corrects, and why.
func correcting(inv *invoice.Invoice) string {
	if inv.Corrects == "" {
		return ""
	}
	return fmt.Sprintf("Corrects   %s: %s\n", cli.Printable(inv.Corrects), cli.Printable(inv.Reason))
}

func invoiceLines(inv *invoice.Invoice) cli.Table {
	t := cli.Table{Columns: cli.Columns("effect", "project", "model", "profile", "bucket", "quantity exact",
		"unit", "unit_price exact", "amount exact", "detail wide")}
	for _, l := range inv.Lines {
		t.Rows = append(t.Rows, []string{
			l.Effect, l.Project, l.Model, l.Profile, l.Bucket, l.Quantity.String(), l.Unit, l.UnitPrice.String(),
			l.Amount.String(), l.Detail,
		})
	}
	return t
}

func printDocument(s *cli.Session, document any) error {
	text, err := invoice.Canonical(document)
	if err != nil {
		return err
	}
	return s.Verbatim(string(text))
}

// ListInvoices prints a month's invoices with their totals.
func ListInvoices(ctx context.Context, s *cli.Session) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		p.WarnOfPrices(ctx)
		drafted, err := p.Register.List(ctx, s.Month.Text)
		if err != nil {
			return err
		}
		tellQuarantined(s, drafted)
		err = s.Print(invoiceTable(drafted, s.Format == cli.AsTable))
		if err != nil || len(drafted.Invoices) > 0 {
			return err
		}
		return app.SayNothing(ctx, s, p.Access, "in "+s.Month.Text)
	})
}

// ShowInvoices prints the documents of one tenant's month, or one revision; negative: all.
func ShowInvoices(ctx context.Context, s *cli.Session, revision int) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		p.WarnOfPrices(ctx)
		documents, err := p.Register.Show(ctx, s.Month.Text, s.Tenant)
		if err != nil {
			return err
		}
		return printInvoices(s, documents, revision, p.Register.Head)
	})
}
