package commands

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func invoiceCommand() cli.Command {
	return cli.Command{
		Use:   "invoice",
		Short: "What each tenant owes for a month",
		Examples: []string{
			"gputally invoice list --data DIR --period 2026-10", "a month's invoices",
			"gputally invoice finalise --data DIR --period 2026-10", "let them stand",
		},
		Commands: []cli.Command{
			invoiceListCommand(), invoiceShowCommand(), invoiceFinaliseCommand(), invoiceAdjustmentsCommand(),
			invoiceNoteCommand(), invoiceApproveCommand(), invoiceVerifyCommand(), invoiceEvidenceCommand(),
		},
	}
}

func invoiceListCommand() cli.Command {
	return cli.Command{
		Use:   "list",
		Short: "List a month's invoices with their totals",
		Long: `
The table ends with the platform's own account; CSV and JSON have the tenants' invoices alone. The content of a
draft is that of the document it would be if it were finalised now: --expect of finalise and approve takes it.`,
		Examples: []string{
			"gputally invoice list --data DIR --period 2026-10", "a month's invoices",
			"gputally invoice list --data DIR --period 2026-10 --output csv", "for scripts",
		},
		Takes: cli.Data | cli.Output | cli.Period,
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return bill.ListInvoices(ctx, s) },
	}
}

func invoiceShowCommand() cli.Command {
	var revision int
	return cli.Command{
		Use:   "show",
		Short: "Show one tenant's invoice with every line, and the notes on it",
		Long:  "JSON gives one whole document, byte for byte the same for the same usage and prices.",
		Examples: []string{
			"gputally invoice show --data DIR --period 2026-10 --tenant ml-train", "what it is made of",
			"gputally invoice show --data DIR --period 2026-10 --tenant ml-train --output json", "the document",
		},
		Takes: cli.Data | cli.Output | cli.Period | cli.Tenant,
		Flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&revision, "revision", -1,
				"only the document of this `REVISION`: 0 is the invoice, 1 the first note on it (default: all; JSON and CSV: 0)")
			flags.Lookup("revision").DefValue = "0" // else help calls -1 the default, too
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return bill.ShowInvoices(ctx, s, revision)
		},
	}
}

func invoiceFinaliseCommand() cli.Command {
	var tenants []string
	var withoutUsage, withoutUnpriced bool
	return cli.Command{
		Use:     "finalise",
		Aliases: []string{"finalize"},
		Short:   "Finalise a month's invoices",
		Long: `
Only closed hours can be finalised. Each invoice keeps its own copy of the usage it follows from, and is never
changed again: what comes later is a credit or debit note (invoice adjustments, invoice note). Without --tenant
it finalises every tenant's; invoices finalised before don't change. If no price book was published yet, the
configured one is published. A month without hours in the ledger is refused unless --without-usage is given; so is a
month with usage of models without a rate in the price book, unless --without-unpriced is given: that usage and its
tenants are then left out, and the platform's time of these hours is never distributed. A refused request changes
nothing.`,
		Examples: []string{
			"gputally invoice finalise --data DIR --period 2026-10", "all of a month",
			"gputally invoice finalise --data DIR --period 2026-10 --tenant ml-train --by finance", "one tenant's",
			"gputally invoice finalise --data DIR --period 2026-10 --tenant ml-train --expect c3b6c210e10fe877",
			"only what invoice list showed",
		},
		Takes: cli.Data | cli.Output | cli.Period | cli.By | cli.Key | cli.Content,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringArrayVar(&tenants, "tenant", nil, "a `TENANT`; may be repeated (default: all)")
			flags.BoolVar(&withoutUsage, "without-usage", false, "finalise though the ledger has no hour of the month")
			flags.BoolVar(&withoutUnpriced, "without-unpriced", false,
				"leave out the tenants who used a model that the price book has no rate for")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return bill.Finalise(ctx, s, tenants, withoutUsage, withoutUnpriced)
		},
	}
}

func invoiceAdjustmentsCommand() cli.Command {
	return cli.Command{
		Use:   "adjustments",
		Short: "List the finalised invoices whose usage changed since",
		Long: `Late or corrected data, or another tenant mapping, change hours that were invoiced. Each tenant's pending
adjustment is shown with its reason and the note that would be issued; invoice note issues it.`,
		Examples: []string{
			"gputally invoice adjustments --data DIR --period 2026-10",
			"what changed since October was invoiced",
		},
		Takes: cli.Data | cli.Output | cli.Period,
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return bill.Adjustments(ctx, s) },
	}
}

func invoiceNoteCommand() cli.Command {
	return cli.Command{
		Use:   "note",
		Short: "Decide the credit or debit note of a pending adjustment",
		Long: `
The note is what the tenant's month costs now, by the invoice's own price book, distribution and supplied hours,
less the invoice and its earlier notes. The invoice stays as it is, byte for byte.`,
		Examples: []string{
			"gputally invoice note --data DIR --period 2026-10 --tenant ml-train",
			"correct October's invoice",
		},
		Takes: cli.Data | cli.Output | cli.Period | cli.By | cli.Key | cli.Content | cli.Tenant,
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return bill.Note(ctx, s) },
	}
}

func invoiceApproveCommand() cli.Command {
	var comment string
	return cli.Command{
		Use:   "approve",
		Short: "Approve what finalising, or the note, would decide",
		Long: `
If the policy or billing.approvals requires it, an invoice or note can be decided only after somebody else has approved
exactly these bytes. --expect is the content of the reviewed draft (invoice list, invoice show) or pending note
(invoice adjustments); if the content has changed, nothing is approved. Names are taken from --by and not verified:
there is no access control.`,
		Examples: []string{
			"gputally invoice approve --data DIR --period 2026-10 --tenant ml-train --expect c3b6c210e10fe877 --by auditor",
			"the second pair of eyes",
		},
		Takes: cli.Data | cli.Period | cli.By | cli.Content | cli.Tenant,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&comment, "comment", "", "`TEXT` to keep with it")
		},
		Needs: []string{"expect"},
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return bill.Approve(ctx, s, comment) },
	}
}

func invoiceVerifyCommand() cli.Command {
	return cli.Command{
		Use:   "verify NUMBER",
		Short: "Recompute a finalised invoice or note from its own copy of usage",
		Long: `
Rates the usage copy by the price book it names and compares the document byte for byte (C8); exits with 1 when they
differ. It also says whether the ledger's usage has changed since.`,
		Examples: []string{"gputally invoice verify 2026-10-ml-train-r0 --data DIR", "does it still follow?"},
		Takes:    cli.Data | cli.Output,
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return bill.VerifyInvoice(ctx, s, args[0])
		},
	}
}

func invoiceEvidenceCommand() cli.Command {
	var line string
	return cli.Command{
		Use:   "evidence NUMBER [LINE]",
		Short: "Go from a line of a finalised invoice back to GPU-hours and batches",
		Long: `
LINE, or --line as for explain, counts from 1, as invoice show lists them. Each row is a GPU's hour with the tenant's
part of it, and the number and hash of its node's batches; gputally explain shows more. Hours whose usage in the
ledger has changed since are named.`,
		Examples: []string{"gputally invoice evidence 2026-10-ml-train-r0 1 --data DIR", "what the first line rests on"},
		Takes:    cli.Data | cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&line, "line", "", "the invoice's `LINE`, from 1 on, instead of the argument")
		},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			switch lines := append(args[1:], line); {
			case line != "" && len(args) > 1:
				return cli.UsageError(errors.New("LINE and --line: give one of them"))
			case lines[0] == "":
				return cli.UsageError(errors.New("LINE is missing: name a line of the invoice, from 1 on"))
			default:
				return bill.Evidence(ctx, s, args[0], lines[0])
			}
		},
	}
}
