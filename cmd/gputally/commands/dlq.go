package commands

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/load"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/cli"
)

func dlqCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List what ingest could not use, and send it back",
		Example: cli.Examples(
			"gputally dlq list --data DIR", "what was refused, and why",
			"gputally dlq replay --data DIR --reason format", "send it again, to a version that can read it",
			`gputally dlq skip --data DIR --offset 0/17 --reason "crashes ingest"`, "pass over what stops ingest",
		),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(dlqListCommand(s), dlqReplayCommand(s), dlqSkipCommand(s))
	return cmd
}

func dlqListCommand(s *cli.Session) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the dead letters",
		Long: "Prints one row per dead letter: its own place, which message of the samples topic it was, why ingest\n" +
			"could not use it, hash and size of the whole message and its first bytes. A letter keeps the first\n" +
			"64 KiB; only what is kept whole can be sent again, and replayable says so, or why not.",
		Example: cli.Examples(
			"gputally dlq list --data DIR", "all of them",
			"gputally dlq list --data DIR --reason garbage --output csv", "one kind, for a spreadsheet",
		),
		Args: cobra.NoArgs,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "only those of this `REASON`: garbage, format, invalid, limits, too_costly, origin, cluster, slot_length, early, sequence, late, window, record or too_large")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithBroker(ctx, s, *data, func(p *app.Pipeline) error {
			letters := load.LettersTable()
			err := load.EachLetter(ctx, p, func(l *ingest.DeadLetter) error {
				if reason == "" || l.Reason == reason {
					letters.Rows = append(letters.Rows, load.LetterCells(l))
				}
				return nil
			})
			if err != nil {
				return err
			}
			return letters.Write(s.Stdout, *o, cli.Colour(s.Stdout))
		})
	})
	return cmd
}

func dlqReplayCommand(s *cli.Session) *cobra.Command {
	o := load.DlqReplay{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send dead letters back to the samples topic",
		Long: "Sends the messages back to the samples topic as they were: the same bytes, key and headers, and the\n" +
			"header " + ingest.HeaderReplayOf + ", which names the letter. Ingest takes them like any other; one that\n" +
			"is dead again becomes a new dead letter. With --all and --reason, letters of the same bytes are sent once.\n" +
			"What is not whole is listed and left; then the exit code is 1.",
		Example: cli.Examples(
			"gputally dlq replay --data DIR --offset 0/17", "one letter, by its own partition and offset",
			"gputally dlq replay --data DIR --all --dry-run", "what would be sent",
		),
		Args: cobra.NoArgs,
	}
	data := cli.DataFlag(cmd)
	flags := cmd.Flags()
	flags.Var(&o.Place, "offset", "the letter at this `PARTITION/OFFSET` of the dead-letter topic")
	flags.StringVar(&o.Reason, "reason", "", "all letters of this `REASON`")
	flags.BoolVar(&o.All, "all", false, "all letters")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only say what would be sent")
	cmd.MarkFlagsOneRequired("offset", "reason", "all")
	cmd.MarkFlagsMutuallyExclusive("offset", "reason", "all")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithBroker(ctx, s, *data, func(p *app.Pipeline) error { return o.Run(ctx, p) })
	})
	return cmd
}

func dlqSkipCommand(s *cli.Session) *cobra.Command {
	o := load.DlqSkip{}
	cmd := &cobra.Command{
		Use:   "skip",
		Short: "Make ingest pass over messages at which it stands still",
		Long: "What ingest can't use becomes a dead letter by itself. This is for what stops it all the same: the group's offset\n" +
			"moves over the messages, they are dead in the journal with the reason skipped, and who did it and why is an audit\n" +
			"entry of the decisions. Ingest must be stopped, and stand at --offset: status names the place, and with\n" +
			"ingest.chunk_records: 1 it stands at the very message. Offsets that are in the journal are refused. The messages\n" +
			"stay in the topic until its retention takes them: gputally replay ingests them later, if they can be.",
		Example: cli.Examples(
			`gputally dlq skip --data DIR --offset 0/17 --reason "crashes ingest, ticket 4711"`, "one message",
			`gputally dlq skip --config FILE --offset 3/900 --count 12 --reason "disk of broker 2"`, "twelve of them, on a cluster",
		),
		Args: cobra.NoArgs,
	}
	data := cli.DataFlag(cmd)
	flags := cmd.Flags()
	flags.Var(&o.Place, "offset", "`PARTITION/OFFSET` of the samples topic at which ingest stands")
	flags.Int64Var(&o.Count, "count", 1, "`NUMBER` of offsets to pass over")
	flags.StringVar(&o.Reason, "reason", "", "`TEXT` that says why")
	flags.StringVar(&o.Who, "by", "", "`NAME` of who decides it (default: the user that runs this)")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if !o.Place.Given || o.Reason == "" || o.Count < 1 {
			return cli.UsageError(errors.New("--offset PARTITION/OFFSET and --reason TEXT are needed, and --count 1 or more"))
		}
		if o.Who = cmp.Or(o.Who, cli.CurrentUser()); o.Who == "" {
			return cli.UsageError(errors.New("--by NAME is needed: the system has no name for who runs this"))
		}
		return load.Skip(ctx, s, *data, &o)
	})
	return cmd
}
