package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/load"
	"github.com/gputally/gputally/internal/cli"
)

func dlqCommand() cli.Command {
	return cli.Command{
		Use:   "dlq",
		Short: "List what ingest could not use, and send it back",
		Examples: []string{
			"gputally dlq list --data DIR", "what was refused, and why",
			"gputally dlq replay --data DIR --reason format", "send it again, to a version that can read it",
			`gputally dlq skip --data DIR --offset 0/17 --reason "crashes ingest"`, "pass over what stops ingest",
		},
		Commands: []cli.Command{dlqListCommand(), dlqReplayCommand(), dlqSkipCommand()},
	}
}

func dlqListCommand() cli.Command {
	var reason string
	return cli.Command{
		Use:   "list",
		Short: "Print the dead letters",
		Long: `Prints one row per dead letter: its own place, which message of the samples topic it was, why ingest
could not use it, hash and size of the whole message and its first bytes. A dead letter keeps the
first 64 KiB; only whole messages can be sent again. The column replayable says whether, or why not.`,
		Examples: []string{
			"gputally dlq list --data DIR", "all of them",
			"gputally dlq list --data DIR --reason garbage --output csv", "one kind, for a spreadsheet",
		},
		Takes: cli.Data | cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			cli.Choice(flags, &reason, "reason", "", "only those of this `REASON`", load.LetterReasons()...)
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return load.Letters(ctx, s, reason) },
	}
}

func dlqReplayCommand() cli.Command {
	var o load.LetterRequest
	return cli.Command{
		Use:   "replay",
		Short: "Send dead letters back to the samples topic",
		Long: `Sends the messages back to the samples topic as they were: the same bytes, key and headers, and the
header gputally-replay-of, which names the dead letter. Ingest processes them like any other; one that
still can't be used becomes a new dead letter. With --all and --reason, messages of the same bytes are sent once. If
some are incomplete, they are listed and not sent, and the exit code is 1.`,
		Examples: []string{
			"gputally dlq replay --data DIR --offset 0/17", "one letter, by its own partition and offset",
			"gputally dlq replay --data DIR --all --dry-run", "what would be sent",
		},
		Takes: cli.Data,
		Flags: func(flags *pflag.FlagSet) {
			flags.Var(&o.Place, "offset", "the letter at this `PARTITION/OFFSET` of the dead-letter topic")
			cli.Choice(flags, &o.Reason, "reason", "", "all letters of this `REASON`", load.LetterReasons()...)
			flags.BoolVar(&o.All, "all", false, "all letters")
			flags.BoolVar(&o.DryRun, "dry-run", false, "only say what would be sent")
		},
		OneOf: []string{"offset", "reason", "all"},
		Apart: []string{"offset", "reason", "all"},
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return load.ResendLetters(ctx, s, &o) },
	}
}

func dlqSkipCommand() cli.Command {
	var o load.SkipRequest
	return cli.Command{
		Use:   "skip",
		Short: "Make ingest skip messages at which it is blocked",
		Long: `
Messages that ingest can't use become dead letters automatically. This command is for messages that block it
nevertheless: it moves the group's offset past them, records them as dead in the journal with the reason skipped, and
records who did it and why as an audit entry of the decisions. Ingest must be stopped, and its offset must be --offset:
status shows it, and with ingest.chunk_records: 1 it is the offset of the blocking message. Offsets that are in the
journal are refused. The messages stay in the topic until its retention: gputally replay can ingest them later.`,
		Examples: []string{
			`gputally dlq skip --data DIR --offset 0/17 --reason "crashes ingest, ticket 4711"`, "one message",
			`gputally dlq skip --config FILE --offset 3/900 --count 12 --reason "disk of broker 2"`,
			"twelve of them, on a cluster",
		},
		Takes: cli.Data | cli.By,
		Flags: func(flags *pflag.FlagSet) {
			flags.Var(&o.Place, "offset", "`PARTITION/OFFSET` of the samples topic: the group's offset")
			flags.Int64Var(&o.Count, "count", 1, "`NUMBER` of offsets to skip")
			flags.StringVar(&o.Reason, "reason", "", "`TEXT` with the reason")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return load.Skip(ctx, s, &o) },
	}
}
