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
		Short: "Idle allocations, off-hours spikes and errors of devices, with what they wasted",
		Long: "Prints the findings (idle allocations, patterns of them, off-hours spikes, silent nodes, errors\n" +
			"of GPUs) that overlap the range, in time order. Costs are the price book's, before the terms of a month. A time in\n" +
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
			flags.BoolVar(&all, "all", false, "in the table, also what belongs to a pattern or an outage")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return ask.Anomalies(ctx, s, kind, tenant, muted, all)
		},
		Commands: []cli.Command{
			anomaliesExplainCommand(),
			anomaliesMarkCommand(cli.Command{
				Use: "ack ID", Short: "Acknowledge a finding: somebody looks after it",
				Long:     "ID is the last column of gputally anomalies. A later ack replaces an earlier one.",
				Examples: []string{"gputally anomalies ack ID --by alice --data DIR", "alice looks after it"},
			}, decisions.FindingAck),
			anomaliesMarkCommand(cli.Command{
				Use: "mute [ID]", Short: "Mute findings until a time: no alert, hidden in tables",
				Long: "Without ID, mutes every finding, also later ones, that has the given kind, tenant, project and workload.\n" +
					"A later mute of the same replaces an earlier one; clear ends it before its time.",
				Examples: []string{
					`gputally anomalies mute ID --until 2026-11-01 --reason "known" --data DIR`, "one finding",
					`gputally anomalies mute --kind idle_allocation --tenant ml-train --until 2026-11-01 --reason "rollout" --data DIR`,
					"planned idle time",
				},
				Needs: []string{"until", "reason"},
			}, decisions.FindingMute),
			anomaliesMarkCommand(cli.Command{
				Use: "judge ID VERDICT", Short: "Judge a finding: useful, false or planned",
				Long: "useful: something was wasted or wrong; false: nothing was; planned: it is as found, and was meant to be.\n" +
					"A later verdict replaces an earlier one. anomalies scores counts them.",
				Examples: []string{"gputally anomalies judge ID false --data DIR", "a false alarm"},
			}, decisions.FindingJudge),
			anomaliesMarkCommand(cli.Command{
				Use: "clear [ID]", Short: "End all marks of a finding, or the mute of a pattern",
				Long:     "A pattern is ended with the same kind, tenant, project and workload as it was muted with.",
				Examples: []string{"gputally anomalies clear ID --data DIR", "as if nobody had said anything"},
			}, decisions.FindingClear),
			anomaliesScoresCommand(),
			anomaliesIdleCommand(),
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

func anomaliesIdleCommand() cli.Command {
	return cli.Command{
		Use:   "idle",
		Short: "A month's idle time: in findings, in none, and on the invoices",
		Long: "Found and rest sum to the idle time of the ledger. Their cost is that of the invoices' lines of bucket idle\n" +
			"(list value, profile price, surcharge); exit code 1 if it differs by more than half a cent.",
		Examples: []string{"gputally anomalies idle --period 2026-10 --data DIR", "how much of the waste the findings name"},
		Takes:    cli.Data | cli.Output | cli.Period,
		Run:      func(ctx context.Context, s *cli.Session, _ []string) error { return ask.IdleTime(ctx, s) },
	}
}

func anomaliesExplainCommand() cli.Command {
	output := cli.AsTable
	return cli.Command{
		Use:   "explain ID",
		Short: "Why a finding was found, by which rules, and what it costs",
		Long: "ID is the last column of gputally anomalies, or six or more of its first digits. JSON has the figures of\n" +
			"column facts in table anomalies.",
		Examples: []string{"gputally anomalies explain 9d83be1e --data DIR", "one finding"},
		Takes:    cli.Data,
		Flags: func(flags *pflag.FlagSet) {
			cli.Choice(flags, &output, "output", "o", "print the answer as `FORMAT`", cli.AsTable, cli.AsJSON)
		},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			s.Format = output
			return ask.ExplainAnomaly(ctx, s, args[0])
		},
	}
}

func analyzeCommand() cli.Command {
	return cli.Command{
		Use:   "analyze",
		Short: "Find a range's findings anew and publish them, for example after a new configuration",
		Long: "Reads the ledger and replaces the findings of the range in table anomalies, as the analyzer does for its window.\n" +
			"Findings that are no longer found are marked as deleted; alerts that were given stay.",
		Examples: []string{
			"gputally analyze --data DIR", "the whole ledger",
			"gputally analyze --from 2026-10-01 --to 2026-11-01 --data DIR", "a month",
		},
		Takes: cli.Data | cli.Range,
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return ask.Analyze(ctx, s) },
	}
}
