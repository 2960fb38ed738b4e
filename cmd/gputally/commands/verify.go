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
		Short: "Prove that nothing is missing: checks C1 to C9, and what was decided",
		Long: `Holds spool, topic, journal, raw rows, ledger and invoices against each other, exactly and without
tolerance, and prints one line per check with its figures. Exits with 1 when one fails; n/a is a check that
had nothing to prove, as of a month without prices. What ingest has not read yet is waited for where a
standalone runs.`,
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
