package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/export"
	"github.com/gputally/gputally/billing/export/focus"
)

func (s *session) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a month's chargeback to a file, check one",
		Args:  cobra.NoArgs,
		Example: examples(
			"gputally export csv --data DIR --period 2026-10", "the month as CSV",
			"gputally export focus --data DIR --period 2026-10", "the month as FOCUS 1.2, for FinOps tools",
			"gputally export check FILE", "any FOCUS file against the specification",
		),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.exportCSVCommand(), s.exportFocusCommand(), s.exportCheckCommand())
	return cmd
}

func (s *session) exportCSVCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "csv",
		Short: "Write a month's invoice lines as CSV and print the file's path",
		Long:  "The file is chargeback-MONTH.csv in the folder export of --out; an older one is replaced whole.",
		Example: examples(
			"gputally export csv --data DIR --period 2026-10", "into DIR/export",
			"gputally export csv --data DIR --period 2026-10 --out /srv/finance", "into /srv/finance/export",
		),
		Args: cobra.NoArgs,
	}
	data, month := dataFlag(cmd), periodFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` to write to (default: the data directory)")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		folder, err := exportFolder(out, *data)
		if err != nil {
			return err
		}
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			drafted, err := p.register.List(ctx, month.text)
			if err != nil {
				return err
			}
			s.tellQuarantined(drafted)
			path, err := export.Chargeback(folder, drafted)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.stdout, path)
			return err
		})
	})
	return cmd
}

// exportFolder is where exports go: beside the data, unless told otherwise.
func exportFolder(out, data string) (string, error) {
	if folder := cmp.Or(out, data); folder != "" {
		return folder, nil
	}
	return "", usageError{errors.New("no folder is named: give --data DIR or --out FOLDER")}
}

func (s *session) exportFocusCommand() *cobra.Command {
	var out string
	options := focus.Options{}
	cmd := &cobra.Command{
		Use:   "focus",
		Short: "Write a month as FOCUS, the FinOps Open Cost and Usage Specification",
		Long: "The file is focus-VERSION-MONTH.csv in the folder export of --out, with a description beside it;\n" +
			"older ones are replaced whole. It has the invoices of the month, the notes that are billed in it as corrections, and\n" +
			"drafts, which have no InvoiceId, for tenants whose invoice is not finalised yet.",
		Example: examples(
			"gputally export focus --data DIR --period 2026-10", "FOCUS 1.2 into DIR/export",
			"gputally export focus --data DIR --period 2026-10 --focus-version 1.4", "FOCUS 1.4",
		),
		Args: cobra.NoArgs,
	}
	data, month := dataFlag(cmd), periodFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` to write to (default: the data directory)")
	cmd.Flags().StringVar(&options.Version, "focus-version", focus.Version12, "`VERSION` of FOCUS: 1.2 or 1.4")
	cmd.Flags().BoolVar(&options.Validator, "validator", false, "write what the published validator of 1.2 can read: ASCII, and columns it looks for")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		folder, err := exportFolder(out, *data)
		if err == nil {
			err = options.Validate()
		}
		if err != nil {
			return usageError{err}
		}
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			options.Config = p.cfg.Billing.Focus
			path, _, err := focus.File(folder, month.text, options, s.clock.Now(), focus.Bills(ctx, p.register, month.text))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.stdout, path)
			return err
		})
	})
	return cmd
}
