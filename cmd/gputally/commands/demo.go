package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/demo"
	"github.com/gputally/gputally/internal/cli"
)

func demoCommand() cli.Command {
	var f demo.Flags
	return cli.Command{
		Use:   "demo",
		Short: "Simulate a month of a GPU cluster: usage, invoices, checks",
		Long: `Takes the last full month (or --month) of a simulated cluster (4 nodes, 32 GPUs, some in MIG, six tenants)
through the whole pipeline: spool, broker, ingest, ledger, analyzer, billing. Prints who used what, what was
wasted, what each tenant owes and the result of every check; then it simulates live until Ctrl-C. If it is killed
and started again, it continues where it was. With --once it stops after the month and exits with 1 when a check
failed.`,
		Examples: []string{
			"gputally demo --once --data /tmp/demo", "the month, then stop",
			"gputally demo --data /tmp/demo", "the month, then live on http://127.0.0.1:9415",
			"gputally demo --once --days 2 --data /tmp/short", "its first two days, for a quick look",
		},
		Takes:   cli.NewData | cli.Listen,
		Resumes: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.Int64Var(&f.Seed, "seed", 1, "`N` of the fleet: the same seed and month give the same figures")
			flags.Var(&f.Month, "month", "simulate `MONTH`, such as 2026-10; needs --once (default: the last full month)")
			flags.IntVar(&f.Days, "days", 0, "only the first `N` days of the month (default: all)")
			flags.BoolVar(&f.Once, "once", false, "stop after the month")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return demo.Run(ctx, s, f)
		},
	}
}
