package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
)

func explainCommand() cli.Command {
	q := ask.ExplainAsk{Output: ask.OutputText}
	return cli.Command{
		Use:   "explain",
		Short: "Explain who pays for one GPU-hour and why, down to batches",
		Long: `Says in words who pays for a GPU-hour and why, then shows it piece by piece: who held what from when to
when and at which share, which evidence made it active, idle or unproven, which gaps were inferred, energy, and
the list price. The hour is computed again from raw and compared with the ledger's row; where they differ, the
exit code is 1. Name the GPU by its id, or by its node and index; or the pod or job that held it; or a line of a
decided invoice, of which the GPU-hour with the most time is explained.`,
		Examples: []string{
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z", "a GPU by the beginning of its UUID",
			"gputally explain --data DIR --gpu node-7/3 --hour 2026-10-03T14:00Z --all",
			"a GPU by node and index, with the batches",
			"gputally explain --data DIR --pod ml/train-0 --hour 2026-10-03T14:00Z --time-zone Europe/Berlin",
			"what a pod held, in its own time",
			"gputally explain --data DIR --invoice 2026-10-ml-train-r0 --line 1", "the GPU-hour that counts most in a line",
			"gputally explain --data DIR --gpu GPU-0137 --hour 2026-10-03T14:00Z --output json", "for scripts",
		},
		Takes: cli.Data,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&q.Request.GPU, "gpu", "", "the GPU's `ID`, a unique beginning of it, or NODE/INDEX")
			flags.StringVar(&q.Request.Pod, "pod", "", "the GPU that this `POD` held: NAMESPACE/NAME, a name or a UID")
			flags.StringVar(&q.Request.Job, "job", "", "the GPU that this `JOB` held, by its id")
			flags.StringVar(&q.Invoice, "invoice", "", "the `NUMBER` of a decided invoice, with --line")
			flags.IntVar(&q.Line, "line", 0, "the invoice's `LINE`, from 1 on")
			flags.Func("hour", "the `HOUR`, in UTC unless it names an offset", cli.Into(&q.Request.Hour, ask.FullHour))
			flags.StringVar(&q.Request.Cluster, "cluster", "", "the GPU's `CLUSTER`, where several have one of that id")
			flags.StringVar(&q.Request.Leaf, "leaf", "", "only the lines of this `LEAF`, such as a MIG instance")
			flags.StringVar(&q.Request.Tenant, "tenant", "", "only the `TENANT`'s lines")
			flags.BoolVar(&q.Request.All, "all", false, "list the batches behind it, too, and those that lost")
			flags.Func("time-zone", "show times in this `ZONE` too, such as Europe/Berlin", cli.Into(&q.Zone, ask.TimeZone))
			flags.VarP(&q.Output, "output", "o", "print the answer as `FORMAT`: text or json")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return ask.Explain(ctx, s, q) },
	}
}
