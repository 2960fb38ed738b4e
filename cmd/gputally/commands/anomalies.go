package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

func anomaliesCommand() cli.Command {
	var kind, tenant string
	var muted, all bool
	return cli.Command{
		Use:   "anomalies",
		Short: "Idle allocations and off-hours spikes, with what they wasted",
		Long: "Prints the findings (idle allocations, patterns of them, off-hours spikes) that overlap the\n" +
			"range, in time order. Costs are the price book's, before the terms of a month. A time in\n" +
			"column alerted says when the alert budget let a finding through. The commands below mark\n" +
			"findings.",
		Examples: []string{
			"gputally anomalies --data DIR", "all there are",
			"gputally anomalies --data DIR --kind " + "idle_allocation" +
				" --tenant ml-train --from 2026-10-01 --to 2026-11-01", "what one tenant left idle",
			"gputally anomalies --data DIR --output csv", "for scripts",
		},
		Takes: cli.Data | cli.Output | cli.Range,
		Flags: func(flags *pflag.FlagSet) {
			cli.Choice(flags, &kind, "kind", "", "only episodes of this `KIND`", ask.AnomalyKinds()...)
			flags.StringVar(&tenant, "tenant", "", "only the `TENANT`'s")
			flags.BoolVar(&muted, "muted", false, "also show muted ones in the table; JSON and CSV always have them")
			flags.BoolVar(&all, "all", false, "in the table, also the allocations that a pattern sums up")
		},
	}
}

// anomaliesMarkCommand completes a command that marks findings.
func anomaliesMarkCommand(c cli.Command, action string) cli.Command {
	f := decisions.Finding{Action: action}
	var until cli.Instant
	c.Takes = cli.Data | cli.By | cli.Key
	c.Flags = func(flags *pflag.FlagSet) {
		flags.StringVar(&f.Reason, "reason", "", "`TEXT` that says why")
		if action == decisions.FindingMute {
			flags.Var(&until, "until", "`TIME` at which it ends, RFC 3339, at most 366 days ahead")
			flags.StringVar(&f.Owner, "owner", "", "`NAME` of who answers for it (default: who decides)")
		}
		if action == decisions.FindingMute || action == decisions.FindingClear {
			cli.Choice(flags, &f.Kind, "kind", "", "every finding of this `KIND`", ask.AnomalyKinds()...)
			flags.StringVar(&f.Tenant, "tenant", "", "of this `TENANT`")
			flags.StringVar(&f.Project, "project", "", "of this `PROJECT`")
			flags.StringVar(&f.Workload, "workload", "", "of this `WORKLOAD`")
		}
	}
	c.Run = func(ctx context.Context, s *cli.Session, args []string) error {
		if len(args) > 0 {
			f.ID = args[0]
		}
		if len(args) > 1 {
			f.Verdict = args[1]
		}
		if !until.At.IsZero() {
			f.Until = until.At.UTC()
		}
		return ask.MarkAnomalies(ctx, s, f)
	}
	return c
}

func anomaliesScoresCommand() cli.Command {
	return cli.Command{
		Use:   "scores",
		Short: "How findings were judged, by kind",
		Long: "Precision is useful / (useful + false): of the findings that were judged, not of all. Planned ones count for\n" +
			"neither. A clear takes a verdict back.",
		Examples: []string{"gputally anomalies scores --data DIR", "what the findings are worth so far"},
		Takes:    cli.Data | cli.Output,
		Run:      func(ctx context.Context, s *cli.Session, _ []string) error { return ask.AnomalyScores(ctx, s) },
	}
}
