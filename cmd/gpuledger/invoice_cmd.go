package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuledger/gpuledger/billing/invoice"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/usage"
)

func (s *session) invoiceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "invoice",
		Short:   "What each tenant owes for a month",
		Args:    cobra.NoArgs,
		Example: examples("gpuledger invoice list --data DIR --period 2026-10", "a month's invoices"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.invoiceListCommand(), s.invoiceShowCommand())
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
		Long:  "The table ends with the platform's own account; CSV and JSON have the tenants' invoices alone.",
		Example: examples(
			"gpuledger invoice list --data DIR --period 2026-10", "a month's invoices",
			"gpuledger invoice list --data DIR --period 2026-10 --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withDrafts(ctx, *data, func(a *access, drafts *invoice.Drafts) error {
			drafted, err := drafts.List(ctx, month.text)
			if err != nil {
				return err
			}
			err = invoiceTable(drafted, *o == outputTable).write(s.stdout, *o, colour(s.stdout))
			if err != nil || len(drafted.Invoices) > 0 {
				return err
			}
			return s.sayNothing(ctx, a, *o, "in "+month.text)
		})
	})
	return cmd
}

func invoiceTable(month *invoice.Month, forReading bool) table {
	t := table{columns: append(textColumns([]string{"number", "tenant", "period", "status", "currency"}),
		column{name: "total", number: true})}
	if forReading {
		t.show = func(i int, cell string) string {
			if i == len(t.columns)-1 {
				return grouped(cell)
			}
			return cell
		}
	}
	for _, inv := range month.Invoices {
		tenant := inv.Tenant
		if forReading {
			tenant = shownTenant(usage.KindOwner, tenant)
		}
		t.rows = append(t.rows, []string{inv.Number, tenant, inv.Period, inv.Status, inv.Currency, inv.Total})
	}
	if forReading {
		t.rows = append(t.rows, []string{"", platformName, month.Period, "list value, not billed", month.Currency, platformKeeps(month)})
	}
	return t
}

// platformKeeps is the list value that nobody pays: the platform's own, less
// what was distributed to owners.
func platformKeeps(month *invoice.Month) string {
	return cents(sumOf(month.Platform.List, month.Platform.Distribution))
}

func (s *session) invoiceShowCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show one tenant's invoice with every line",
		Long:  "JSON gives the whole document, byte for byte the same for the same usage and prices.",
		Example: examples(
			"gpuledger invoice show --data DIR --period 2026-10 --tenant ml-train", "what it is made of",
			"gpuledger invoice show --data DIR --period 2026-10 --tenant ml-train --output json", "the document",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "the `TENANT`")
	if err := cmd.MarkFlagRequired("tenant"); err != nil {
		panic(err) // the flag was defined a line above
	}
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withDrafts(ctx, *data, func(_ *access, drafts *invoice.Drafts) error {
			inv, err := drafts.Show(ctx, month.text, tenant)
			if err != nil {
				return err
			}
			return s.printInvoice(*o, inv)
		})
	})
	return cmd
}

func (s *session) printInvoice(o output, inv *invoice.Invoice) error {
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
	heading := fmt.Sprintf("Invoice %s (%s)\nTenant   %s\nPeriod   %s to %s, %s\nGPU-hours  %s: active %s, idle %s, unproven %s\n\n",
		printable(inv.Number), inv.Status, printable(inv.Tenant), inv.From, inv.To, inv.TimeZone, grouped(fixed(inv.GPUHours, 1)),
		grouped(fixed(inv.Buckets.Active, 1)), grouped(fixed(inv.Buckets.Idle, 1)), grouped(fixed(inv.Buckets.Unproven, 1)))
	if _, err := fmt.Fprint(s.stdout, heading); err != nil {
		return fmt.Errorf("print invoice: %w", err)
	}
	if err := invoiceLines(inv).write(s.stdout, o, colour(s.stdout)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.stdout, "\n%s %s %s\n", bold("Total", colour(s.stdout)), grouped(inv.Total), inv.Currency)
	return err
}

func invoiceLines(inv *invoice.Invoice) table {
	t := table{columns: append(textColumns([]string{"effect", "project", "model", "profile", "bucket"}),
		column{name: "quantity", number: true}, column{name: "unit"}, column{name: "unit_price", number: true},
		column{name: "amount", number: true}, column{name: "detail", wide: true})}
	for _, l := range inv.Lines {
		t.rows = append(t.rows, []string{
			l.Effect, l.Project, l.Model, l.Profile, l.Bucket, l.Quantity, l.Unit, l.UnitPrice, l.Amount, l.Detail,
		})
	}
	return t
}

// withDrafts opens the ledger and the price book for one question.
func (s *session) withDrafts(ctx context.Context, dataDir string, ask func(*access, *invoice.Drafts) error) error {
	return s.withStore(ctx, dataDir, func(a *access) error {
		book, err := a.cfg.Billing.book()
		if err != nil {
			return err
		}
		return ask(a, invoice.NewDrafts(a.db, book))
	})
}
