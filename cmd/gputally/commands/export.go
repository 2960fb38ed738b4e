package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func exportCheckCommand(s *cli.Session) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a FOCUS file of anybody's against the specification",
		Long: "Prints each rule that a line breaks, with line, column and value; rules have the ids of FOCUS 1.2's requirements\n" +
			"model. Exit code 1 when there is one. Those rules are checked that a file shows by itself; a file wrong in each\n" +
			"line ends after 10 000.",
		Example: cli.Examples(
			"gputally export check focus-1.2-2026-10.csv", "against FOCUS 1.2",
			"gputally export check costs.csv --focus-version 1.4 --output json", "another tool's file, for a script",
		),
		Args: cli.ArgumentsOfUse,
	}
	cmd.Flags().StringVar(&version, "focus-version", focus.Version12, "`VERSION` of FOCUS: 1.2 or 1.4")
	o := cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(_ context.Context, args []string) error {
		if err := (focus.Options{Version: version}).Validate(); err != nil {
			return cli.UsageError(err)
		}
		violations, err := bill.CheckFocus(args[0], version)
		if err != nil {
			return err
		}
		return bill.PrintViolations(s, *o, args[0], version, violations)
	})
	return cmd
}

func exportCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a month's chargeback to a file, check one",
		Args:  cobra.NoArgs,
		Example: cli.Examples(
			"gputally export csv --data DIR --period 2026-10", "the month as CSV",
			"gputally export focus --data DIR --period 2026-10", "the month as FOCUS 1.2, for FinOps tools",
			"gputally export check FILE", "any FOCUS file against the specification",
		),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(exportCSVCommand(s), exportFocusCommand(s), exportCheckCommand(s))
	return cmd
}

func exportCSVCommand(s *cli.Session) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "csv",
		Short: "Write a month's invoice lines as CSV and print the file's path",
		Long:  "The file is chargeback-MONTH.csv in the folder export of --out; an older one is replaced whole.",
		Example: cli.Examples(
			"gputally export csv --data DIR --period 2026-10", "into DIR/export",
			"gputally export csv --data DIR --period 2026-10 --out /srv/finance", "into /srv/finance/export",
		),
		Args: cobra.NoArgs,
	}
	data, month := cli.DataFlag(cmd), cli.PeriodFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` to write to (default: the data directory)")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		folder, err := bill.ExportFolder(out, *data)
		if err != nil {
			return err
		}
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			drafted, err := p.Register.List(ctx, month.Text)
			if err != nil {
				return err
			}
			bill.TellQuarantined(s, drafted)
			path, err := export.Chargeback(folder, drafted)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Stdout, path)
			return err
		})
	})
	return cmd
}

func exportFocusCommand(s *cli.Session) *cobra.Command {
	var out string
	options := focus.Options{}
	cmd := &cobra.Command{
		Use:   "focus",
		Short: "Write a month as FOCUS, the FinOps Open Cost and Usage Specification",
		Long: "The file is focus-VERSION-MONTH.csv in the folder export of --out, with a description beside it;\n" +
			"older ones are replaced whole. It has the invoices of the month, the notes that are billed in it as corrections, and\n" +
			"drafts, which have no InvoiceId, for tenants whose invoice is not finalised yet.",
		Example: cli.Examples(
			"gputally export focus --data DIR --period 2026-10", "FOCUS 1.2 into DIR/export",
			"gputally export focus --data DIR --period 2026-10 --focus-version 1.4", "FOCUS 1.4",
		),
		Args: cobra.NoArgs,
	}
	data, month := cli.DataFlag(cmd), cli.PeriodFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` to write to (default: the data directory)")
	cmd.Flags().StringVar(&options.Version, "focus-version", focus.Version12, "`VERSION` of FOCUS: 1.2 or 1.4")
	cmd.Flags().BoolVar(&options.Validator, "validator", false, "write what the published validator of 1.2 can read: ASCII, and columns it looks for")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		folder, err := bill.ExportFolder(out, *data)
		if err == nil {
			err = options.Validate()
		}
		if err != nil {
			return cli.UsageError(err)
		}
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			options.Config = p.Config.Billing.Focus
			path, _, err := focus.File(folder, month.Text, options, s.Clock.Now(), focus.Bills(ctx, p.Register, month.Text))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Stdout, path)
			return err
		})
	})
	return cmd
}
