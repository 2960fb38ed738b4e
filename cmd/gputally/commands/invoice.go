package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func invoiceCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "invoice",
		Short: "What each tenant owes for a month",
		Args:  cobra.NoArgs,
		Example: cli.Examples(
			"gputally invoice list --data DIR --period 2026-10", "a month's invoices",
			"gputally invoice finalise --data DIR --period 2026-10", "let them stand",
		),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(invoiceListCommand(s), invoiceShowCommand(s), invoiceFinaliseCommand(s), invoiceAdjustmentsCommand(s),
		invoiceNoteCommand(s), invoiceApproveCommand(s), invoiceVerifyCommand(s), invoiceEvidenceCommand(s))
	return cmd
}

func invoiceListCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List a month's invoices with their totals",
		Long: "The table ends with the platform's own account; CSV and JSON have the tenants' invoices alone. The content of a\n" +
			"draft is that of the document it would be if it were finalised now: --expect of finalise and approve takes it.",
		Example: cli.Examples(
			"gputally invoice list --data DIR --period 2026-10", "a month's invoices",
			"gputally invoice list --data DIR --period 2026-10 --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.PeriodFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			p.WarnOfPrices(ctx)
			drafted, err := p.Register.List(ctx, month.Text)
			if err != nil {
				return err
			}
			bill.TellQuarantined(s, drafted)
			err = bill.InvoiceTable(drafted, *o == cli.OutputTable).Write(s.Stdout, *o, cli.Colour(s.Stdout))
			if err != nil || len(drafted.Invoices) > 0 {
				return err
			}
			return app.SayNothing(ctx, s, p.Access, *o, "in "+month.Text)
		})
	})
	return cmd
}

func invoiceShowCommand(s *cli.Session) *cobra.Command {
	var tenant string
	var note int
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show one tenant's invoice with every line, and the notes on it",
		Long:  "JSON gives one whole document, byte for byte the same for the same usage and prices.",
		Example: cli.Examples(
			"gputally invoice show --data DIR --period 2026-10 --tenant ml-train", "what it is made of",
			"gputally invoice show --data DIR --period 2026-10 --tenant ml-train --output json", "the document",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.PeriodFlag(cmd)
	cli.TenantFlag(cmd, &tenant)
	cmd.Flags().IntVar(&note, "revision", -1, "only the document of this `REVISION`: 0 is the invoice, 1 the first note on it (default: all; JSON and CSV: 0)")
	cmd.Flags().Lookup("revision").DefValue = "0" // else help calls -1 the default, too
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			p.WarnOfPrices(ctx)
			documents, err := p.Register.Show(ctx, month.Text, tenant)
			if err != nil {
				return err
			}
			return bill.PrintInvoices(s, *o, documents, note, p.Register.Head)
		})
	})
	return cmd
}

func invoiceFinaliseCommand(s *cli.Session) *cobra.Command {
	var tenants []string
	var withoutUsage, withoutUnpriced bool
	cmd := &cobra.Command{
		Use:     "finalise",
		Aliases: []string{"finalize"},
		Short:   "Let a month's invoices stand for ever",
		Long: "Only closed hours can be finalised. Each invoice keeps its own copy of the usage it follows from, and is never\n" +
			"changed again: what comes later is a credit or debit note (invoice adjustments, invoice note). Without --tenant\n" +
			"it finalises every tenant's; what stands already stays. A price book that was not published yet is published.\n" +
			"A month of which the ledger has no hour is refused, unless --without-usage says that it is meant; so is one with usage\n" +
			"of models that the price book has no rate for, unless --without-unpriced says so: that usage and its tenants are left\n" +
			"out, and nothing of its hours is shared out, for ever. What is refused leaves nothing behind.",
		Example: cli.Examples(
			"gputally invoice finalise --data DIR --period 2026-10", "all of a month",
			"gputally invoice finalise --data DIR --period 2026-10 --tenant ml-train --by finance", "one tenant's",
			"gputally invoice finalise --data DIR --period 2026-10 --tenant ml-train --expect c3b6c210e10fe877", "only what invoice list showed",
		),
		Args: cobra.NoArgs,
	}
	data, o, month, by, key, expect := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.PeriodFlag(cmd), cli.ByFlag(cmd), cli.KeyFlag(cmd), cli.ContentFlag(cmd)
	cmd.Flags().StringArrayVar(&tenants, "tenant", nil, "a `TENANT`; may be repeated (default: all)")
	cmd.Flags().BoolVar(&withoutUsage, "without-usage", false, "finalise though the ledger has no hour of the month")
	cmd.Flags().BoolVar(&withoutUnpriced, "without-unpriced", false, "leave out the tenants who used a model that the price book has no rate for")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if (*key != "" || *expect != "") && len(tenants) != 1 {
			return cli.UsageError(errors.New("--key is for one --tenant, and so is --expect"))
		}
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			p.WarnOfPrices(ctx)
			bar := cli.NewProgress(s.Stderr, s.Clock, "finalise")
			defer bar.Clear()
			done, err := p.Register.Finalise(ctx, invoice.FinaliseRequest{
				Period: month.Text, Tenants: tenants, Who: cmp.Or(*by, cli.CurrentUser(), "unknown"), Key: *key,
				Expect: *expect, WithoutUsage: withoutUsage, WithoutUnpriced: withoutUnpriced,
				Progress: func(done, total int) { bar.Set(int64(done), int64(total)) },
			})
			bar.Clear()
			if err != nil && len(done) == 0 {
				return err
			}
			return errors.Join(err, bill.DecidedTable(done).Write(s.Stdout, *o, cli.Colour(s.Stdout)))
		})
	})
	return cmd
}

func invoiceAdjustmentsCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adjustments",
		Short: "List the finalised invoices whose usage changed since",
		Long: "Late or corrected data, or another tenant mapping, change hours that were invoiced. Each tenant's pending\n" +
			"adjustment is shown with its reason and the note it would come to; invoice note decides one.",
		Example: cli.Examples("gputally invoice adjustments --data DIR --period 2026-10", "what changed since October was invoiced"),
		Args:    cobra.NoArgs,
	}
	data, o, month := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.PeriodFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			found, err := p.Register.Adjustments(ctx, month.Text)
			if err != nil {
				return err
			}
			if *o == cli.OutputJSON {
				return bill.PrintDocument(s, found)
			}
			if len(found) == 0 && *o == cli.OutputTable {
				_, err := fmt.Fprintf(s.Stdout, "No adjustment is pending in %s.\n", month.Text)
				return err
			}
			return bill.AdjustmentTable(found).Write(s.Stdout, *o, cli.Colour(s.Stdout))
		})
	})
	return cmd
}

func invoiceNoteCommand(s *cli.Session) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "note",
		Short: "Decide the credit or debit note of a pending adjustment",
		Long: "The note is what the tenant's month comes to now, by the invoice's own price book, distribution and supplied hours,\n" +
			"less the invoice and its earlier notes. The invoice stays as it is, byte for byte.",
		Example: cli.Examples("gputally invoice note --data DIR --period 2026-10 --tenant ml-train", "correct October's invoice"),
		Args:    cobra.NoArgs,
	}
	data, o, month, by, key, expect := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.PeriodFlag(cmd), cli.ByFlag(cmd), cli.KeyFlag(cmd), cli.ContentFlag(cmd)
	cli.TenantFlag(cmd, &tenant)
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			done, err := p.Register.Correct(ctx, invoice.CorrectRequest{
				Period: month.Text, Tenant: tenant, Who: cmp.Or(*by, cli.CurrentUser(), "unknown"), Key: *key, Expect: *expect,
			})
			if err != nil {
				return err
			}
			return bill.DecidedTable([]invoice.Decided{done}).Write(s.Stdout, *o, cli.Colour(s.Stdout))
		})
	})
	return cmd
}

func invoiceApproveCommand(s *cli.Session) *cobra.Command {
	var tenant, comment string
	cmd := &cobra.Command{
		Use:   "approve",
		Short: "Approve what finalising, or the note, would decide",
		Long: "Where the policy or billing.approvals wants it, an invoice or note stands only if somebody other than who decides it has approved\n" +
			"exactly these bytes. --expect says which: the content of the draft (invoice list, invoice show) or of the pending note\n" +
			"(invoice adjustments) that was looked at; where it is another one by now, nothing is approved. Names are what --by\n" +
			"says: without access control nobody proves who they are.",
		Example: cli.Examples("gputally invoice approve --data DIR --period 2026-10 --tenant ml-train --expect c3b6c210e10fe877 --by auditor", "the second pair of eyes"),
		Args:    cobra.NoArgs,
	}
	data, month, by, expect := cli.DataFlag(cmd), cli.PeriodFlag(cmd), cli.ByFlag(cmd), cli.ContentFlag(cmd)
	if err := cmd.MarkFlagRequired("expect"); err != nil {
		panic(err) // the flag was defined a line above
	}
	cli.TenantFlag(cmd, &tenant)
	cmd.Flags().StringVar(&comment, "comment", "", "`TEXT` to keep with it")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			done, err := p.Register.Approve(ctx, invoice.ApproveRequest{
				Period: month.Text, Tenant: tenant, Who: cmp.Or(*by, cli.CurrentUser(), "unknown"), Comment: comment, Expect: *expect,
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Stdout, "%s over %s %s is approved with the content %s\n", cli.Printable(done.Number), cli.Grouped(done.Total), done.Currency, done.Content)
			return err
		})
	})
	return cmd
}

func invoiceVerifyCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify NUMBER",
		Short: "Recompute a finalised invoice or note from its own copy of usage",
		Long: "Rates the usage copy by the price book it names and compares the document byte for byte (C8); exits with 1 when they\n" +
			"differ. It also says whether the ledger's usage has changed since.",
		Example: cli.Examples("gputally invoice verify 2026-10-ml-train-r0 --data DIR", "does it still follow?"),
		Args:    cli.ArgumentsOfUse,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			verdict, err := p.Register.Verify(ctx, args[0])
			if err != nil {
				return err
			}
			if err := bill.PrintVerdict(s, *o, verdict); err != nil || verdict.Same {
				return err
			}
			return cli.Quiet("the invoice does not follow from its usage")
		})
	})
	return cmd
}

func invoiceEvidenceCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evidence NUMBER LINE",
		Short: "Go from a line of a finalised invoice back to GPU-hours and batches",
		Long: "LINE counts from 1, as invoice show lists them. Each row is a GPU's hour with the tenant's part of it, and the number\n" +
			"and hash of its node's batches; gputally explain goes on from there. Hours of which the ledger says otherwise by\n" +
			"now are named.",
		Example: cli.Examples("gputally invoice evidence 2026-10-ml-train-r0 1 --data DIR", "what the first line rests on"),
		Args:    cli.ArgumentsOfUse,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		line, err := strconv.Atoi(args[1])
		if err != nil || line < 1 {
			return cli.UsageError(fmt.Errorf("line %q: want a number from 1 on", args[1]))
		}
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			evidence, err := p.Register.Evidence(ctx, args[0], line)
			if errors.Is(err, invoice.ErrNoEvidence) {
				return cli.UsageError(err)
			}
			if err != nil {
				return err
			}
			return bill.PrintEvidence(s, *o, evidence)
		})
	})
	return cmd
}
