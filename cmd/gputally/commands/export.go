package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func exportCheckCommand() cli.Command {
	var version string
	return cli.Command{
		Use:   "check FILE",
		Short: "Check a FOCUS file of anybody's against the specification",
		Long: `
Prints each rule that a line breaks, with line, column and value; rules have the ids of FOCUS 1.2's requirements
model. Exit code 1 when there is one. Those rules are checked that a file shows by itself; a file wrong in each
line ends after 10 000.`,
		Examples: []string{
			"gputally export check focus-1.2-2026-10.csv", "against FOCUS 1.2",
			"gputally export check costs.csv --focus-version 1.4 --output json", "another tool's file, for a script",
		},
		Takes: cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&version, "focus-version", bill.FocusVersion, "`VERSION` of FOCUS: 1.2 or 1.4")
		},
		Run: func(_ context.Context, s *cli.Session, args []string) error {
			return bill.CheckExport(s, args[0], version)
		},
	}
}

func exportCommand() cli.Command {
	return cli.Command{
		Use:   "export",
		Short: "Write a month's chargeback to a file, check one",
		Examples: []string{
			"gputally export csv --data DIR --period 2026-10", "the month as CSV",
			"gputally export focus --data DIR --period 2026-10", "the month as FOCUS 1.2, for FinOps tools",
			"gputally export check FILE", "any FOCUS file against the specification",
		},
		Commands: []cli.Command{exportCSVCommand(), exportFocusCommand(), exportCheckCommand()},
	}
}

func exportCSVCommand() cli.Command {
	var out string
	return cli.Command{
		Use:   "csv",
		Short: "Write a month's invoice lines as CSV and print the file's path",
		Long:  "The file is chargeback-MONTH.csv in the folder export of --out; an older one is replaced whole.",
		Examples: []string{
			"gputally export csv --data DIR --period 2026-10", "into DIR/export",
			"gputally export csv --data DIR --period 2026-10 --out /srv/finance", "into /srv/finance/export",
		},
		Takes: cli.Data | cli.Period,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&out, "out", "", "write to the folder export in this `FOLDER` (default: the data directory)")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return bill.ExportCSV(ctx, s, out) },
	}
}

func exportFocusCommand() cli.Command {
	var out, version string
	var validator bool
	return cli.Command{
		Use:   "focus",
		Short: "Write a month as FOCUS, the FinOps Open Cost and Usage Specification",
		Long: `The file is focus-VERSION-MONTH.csv in the folder export of --out, with a description beside it;
older ones are replaced whole. It has the invoices of the month, the notes that are billed in it as corrections, and
drafts, which have no InvoiceId, for tenants whose invoice is not finalised yet.`,
		Examples: []string{
			"gputally export focus --data DIR --period 2026-10", "FOCUS 1.2 into DIR/export",
			"gputally export focus --data DIR --period 2026-10 --focus-version 1.4", "FOCUS 1.4",
		},
		Takes: cli.Data | cli.Period,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&out, "out", "", "write to the folder export in this `FOLDER` (default: the data directory)")
			flags.StringVar(&version, "focus-version", bill.FocusVersion, "`VERSION` of FOCUS: 1.2 or 1.4")
			flags.BoolVar(&validator, "validator", false,
				"write what the published validator of 1.2 can read: ASCII, and columns it looks for")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return bill.ExportFocus(ctx, s, out, version, validator)
		},
	}
}
