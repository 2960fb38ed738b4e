package commands

import (
	"context"
	"math"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/proof"
	"github.com/gputally/gputally/internal/cli"
)

func verifyCommand() cli.Command {
	var sample uint
	return cli.Command{
		Use:   "verify",
		Short: "Check that nothing is missing or counted twice: C1 to C9, and R6 of the decisions",
		Long: `Compares spool, topic, journal, raw rows, ledger and invoices, exactly and without tolerance, and prints
one line per check with its figures. Exits with 1 when one fails; n/a means that a check had no data, such as a
month without prices. If a standalone runs, the command first waits until ingest has read all messages.`,
		Examples: []string{
			"gputally verify --data DIR", "one line per check",
			"gputally verify --data DIR --output json", "for a monitor",
		},
		Takes: cli.Data | cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			flags.UintVar(&sample, "sample", proof.SampledMessages,
				"how many messages of the topic are read again and held against the journal, drawn at random; 0: none")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			results, err := proof.Verify(ctx, s, int(min(sample, math.MaxInt32)))
			if err != nil {
				return err
			}
			return proof.PrintChecks(s, results)
		},
	}
}
