package main

import (
	"github.com/spf13/cobra"
)

func (s *session) pricesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "prices",
		Short:   "Check, compare and try out price books",
		Args:    cobra.NoArgs,
		Example: examples("gpuledger prices check prices.yaml", "what a price book says, and what looks wrong in it"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.pricesSimulateCommand())
	return cmd
}
