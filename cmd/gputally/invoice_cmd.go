package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/usage"
)

func (s *session) invoiceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "invoice",
		Short: "What each tenant owes for a month",
		Args:  cobra.NoArgs,
		Example: examples(
			"gputally invoice list --data DIR --period 2026-10", "a month's invoices",
			"gputally invoice finalise --data DIR --period 2026-10", "let them stand",
		),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.invoiceListCommand(), s.invoiceShowCommand(), s.invoiceFinaliseCommand(), s.invoiceAdjustmentsCommand(),
		s.invoiceNoteCommand(), s.invoiceApproveCommand(), s.invoiceVerifyCommand(), s.invoiceEvidenceCommand())
	return cmd
}

// period is a month such as 2026-10.
type period struct{ text string }

func (p *period) String() string { return p.text }

// Type is what help calls the flag's value.
func (p *period) Type() string { return "MONTH" }

// Set takes a month that there is.
func (p *period) Set(text string) error {
	month, err := rating.ParsePeriod(text)
	if err != nil {
		return errors.New("want a month such as 2026-10")
	}
	p.text = month.String()
	return nil
}

func periodFlag(cmd *cobra.Command) *period {
	p := &period{}
	cmd.Flags().Var(p, "period", "the `MONTH`, such as 2026-10, in each tenant's own zone")
	if err := cmd.MarkFlagRequired("period"); err != nil {
		panic(err) // the flag was defined a line above
	}
	return p
}

func (s *session) invoiceListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List a month's invoices with their totals",
		Long: "The table ends with the platform's own account; CSV and JSON have the tenants' invoices alone. The content of a\n" +
			"draft is that of the document it would be if it were finalised now: --expect of finalise and approve takes it.",
		Example: examples(
			"gputally invoice list --data DIR --period 2026-10", "a month's invoices",
			"gputally invoice list --data DIR --period 2026-10 --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			p.warnOfPrices(ctx)
			drafted, err := p.register.List(ctx, month.text)
			if err != nil {
				return err
			}
			s.tellQuarantined(drafted)
			err = invoiceTable(drafted, *o == outputTable).write(s.stdout, *o, colour(s.stdout))
			if err != nil || len(drafted.Invoices) > 0 {
				return err
			}
			return s.sayNothing(ctx, p.access, *o, "in "+month.text)
		})
	})
	return cmd
}

// tellQuarantined says on stderr which tenants' drafts lack hours.
func (s *session) tellQuarantined(month *invoice.Month) {
	for i := range month.Invoices {
		if in := &month.Invoices[i]; in.Quarantined != "" {
			s.sayf("tenant %q can't be finalised: %s\n", in.Tenant, in.Quarantined)
		}
	}
	if says := month.Platform.Quarantined; says != "" {
		s.sayf("the platform's account is not complete: %s\n", says)
	}
}

func invoiceTable(month *invoice.Month, forReading bool) table {
	t := table{columns: append(textColumns([]string{"number", "kind", "tenant", "period", "status", "currency"}),
		exactColumn("total"), column{name: "content_sha256", wide: true})}
	for _, inv := range month.Invoices {
		tenant, content := inv.Tenant, inv.Content
		if forReading {
			tenant, content = shownTenant(usage.KindOwner, tenant), content[:16] // which --expect takes
		}
		t.rows = append(t.rows, []string{inv.Number, inv.Kind, tenant, inv.Period, inv.Status, inv.Currency, inv.Total.String(), content})
	}
	if forReading {
		t.rows = append(t.rows, []string{"", "", platformName, month.Period, "list value, not billed", month.Currency, platformKeeps(month), ""})
	}
	return t
}

// platformKeeps is the list value that nobody pays: the platform's own, less
// what was distributed to owners.
func platformKeeps(month *invoice.Month) string {
	return cents(month.Platform.List.Add(month.Platform.Distribution.Decimal))
}

func (s *session) invoiceShowCommand() *cobra.Command {
	var tenant string
	var note int
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show one tenant's invoice with every line, and the notes on it",
		Long:  "JSON gives one whole document, byte for byte the same for the same usage and prices.",
		Example: examples(
			"gputally invoice show --data DIR --period 2026-10 --tenant ml-train", "what it is made of",
			"gputally invoice show --data DIR --period 2026-10 --tenant ml-train --output json", "the document",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd)
	tenantFlag(cmd, &tenant)
	cmd.Flags().IntVar(&note, "revision", -1, "only the document of this `REVISION`: 0 is the invoice, 1 the first note on it (default: all; JSON and CSV: 0)")
	cmd.Flags().Lookup("revision").DefValue = "0" // else help calls -1 the default, too
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			p.warnOfPrices(ctx)
			documents, err := p.register.Show(ctx, month.text, tenant)
			if err != nil {
				return err
			}
			return s.printInvoices(*o, documents, note, p.register.Head)
		})
	})
	return cmd
}

// tenantFlag is the tenant a command is about.
func tenantFlag(cmd *cobra.Command, tenant *string) {
	cmd.Flags().StringVar(tenant, "tenant", "", "the `TENANT`")
	if err := cmd.MarkFlagRequired("tenant"); err != nil {
		panic(err) // the flag was defined a line above
	}
}

// printInvoices prints the documents of a tenant's month, or that of one
// revision; JSON and CSV are of one.
func (s *session) printInvoices(o output, documents []invoice.Invoice, revision int, head func(number string) string) error {
	if revision >= len(documents) {
		return usageError{fmt.Errorf("--revision %d: %s has revisions 0 to %d", revision, documents[0].Number, len(documents)-1)}
	}
	if revision < 0 && o != outputTable {
		revision = 0
	}
	if revision >= 0 {
		documents = documents[revision : revision+1]
	}
	for i := range documents {
		if i > 0 {
			if _, err := fmt.Fprintln(s.stdout); err != nil {
				return fmt.Errorf("print invoice: %w", err)
			}
		}
		if err := s.printInvoice(o, &documents[i], head(documents[i].Number)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) printInvoice(o output, inv *invoice.Invoice, head string) error {
	switch o {
	case outputJSON:
		document, err := invoice.Canonical(inv)
		if err != nil {
			return err
		}
		if _, err := s.stdout.Write(document); err != nil {
			return fmt.Errorf("print invoice: %w", err)
		}
		return nil
	case outputCSV:
		return invoiceLines(inv).write(s.stdout, o, false)
	}
	heading := fmt.Sprintf("%s %s (%s)\n%sTenant     %s\nPeriod     %s to %s, %s\nContent    %s\nGPU-hours  %s: active %s, idle %s, unproven %s\n\n",
		kindWords[inv.Kind], printable(inv.Number), inv.Status, correcting(inv), printable(inv.Tenant), inv.From, inv.To, inv.TimeZone, inv.Content, grouped(fixed(inv.GPUHours.String(), 1)),
		grouped(fixed(inv.Buckets.Active.String(), 1)), grouped(fixed(inv.Buckets.Idle.String(), 1)), grouped(fixed(inv.Buckets.Unproven.String(), 1)))
	if _, err := fmt.Fprint(s.stdout, heading); err != nil {
		return fmt.Errorf("print invoice: %w", err)
	}
	if err := invoiceLines(inv).write(s.stdout, o, colour(s.stdout)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.stdout, "\n%s %s %s\n", bold("Total", colour(s.stdout)), grouped(inv.Total.String()), inv.Currency)
	if err == nil && head != "" {
		_, err = fmt.Fprintf(s.stdout, "Decisions  %s (gputally audit --expect)\n", head)
	}
	return err
}

// kindWords are the kinds of documents as people read them.
var kindWords = map[string]string{
	invoice.KindInvoice: "Invoice", invoice.KindCreditNote: "Credit note", invoice.KindDebitNote: "Debit note",
}

// correcting says what a note corrects, and why.
func correcting(inv *invoice.Invoice) string {
	if inv.Corrects == "" {
		return ""
	}
	return fmt.Sprintf("Corrects   %s: %s\n", printable(inv.Corrects), printable(inv.Reason))
}

func invoiceLines(inv *invoice.Invoice) table {
	t := table{columns: append(textColumns([]string{"effect", "project", "model", "profile", "bucket"}),
		exactColumn("quantity"), column{name: "unit"}, exactColumn("unit_price"), exactColumn("amount"), column{name: "detail", wide: true})}
	for _, l := range inv.Lines {
		t.rows = append(t.rows, []string{
			l.Effect, l.Project, l.Model, l.Profile, l.Bucket, l.Quantity.String(), l.Unit, l.UnitPrice.String(), l.Amount.String(), l.Detail,
		})
	}
	return t
}
