package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuledger/gpuledger/billing/export"
	"github.com/gpuledger/gpuledger/billing/invoice"
)

func (s *session) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Write a month's chargeback to a file",
		Args:    cobra.NoArgs,
		Example: examples("gpuledger export csv --data DIR --period 2026-10", "the month as CSV"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.exportCSVCommand())
	return cmd
}

func (s *session) exportCSVCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "csv",
		Short: "Write a month's invoice lines as CSV and print the file's path",
		Long:  "The file is chargeback-MONTH.csv in the folder export of --out; an older one is replaced whole.",
		Example: examples(
			"gpuledger export csv --data DIR --period 2026-10", "into DIR/export",
			"gpuledger export csv --data DIR --period 2026-10 --out /srv/finance", "into /srv/finance/export",
		),
		Args: cobra.NoArgs,
	}
	data, month := dataFlag(cmd), periodFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FOLDER` to write to (default: the data directory)")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		folder := cmp.Or(out, *data)
		if folder == "" {
			return usageError{errors.New("no folder is named: give --data DIR or --out FOLDER")}
		}
		return s.withDrafts(ctx, *data, func(_ *access, drafts *invoice.Drafts) error {
			drafted, err := drafts.List(ctx, month.text)
			if err != nil {
				return err
			}
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
