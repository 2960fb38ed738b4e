package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/decisions"
)

func auditCommand() cli.Command {
	var from int64
	var expect decisions.Head
	var parts bool
	return cli.Command{
		Use:   "audit",
		Short: "List what was decided: by whom, when, accepted or refused, with the hash chain",
		Long: `
Every finalised invoice, note, approval, price book and mapping is a record in one ordered topic. The chain is a hash
over all of it up to a record: note its last value somewhere else, and --expect shows later that nothing before it
was changed (exit code 1 when it was). Records are read again and compared with the chain as they are listed, and
with their copy (decisions.copy_dir) and their witness (decisions.witness.file).`,
		Examples: []string{
			"gputally audit --data DIR", "all decisions",
			"gputally audit --data DIR --expect 17=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			"is the past what it was?",
		},
		Takes: cli.Data | cli.Output,
		Flags: func(flags *pflag.FlagSet) {
			flags.Int64Var(&from, "from", 0, "first `OFFSET` to list")
			flags.BoolVar(&parts, "parts", false, "list the parts of documents, too")
			flags.Func("expect", "`OFFSET=HASH`: the chain's value after an offset, noted before",
				cli.Into(&expect, decisions.ParseHead))
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return ask.Audit(ctx, s, from, parts, expect)
		},
		Commands: []cli.Command{auditRebuildCommand(), auditRestoreCommand()},
	}
}

func auditRebuildCommand() cli.Command {
	var over bool
	return cli.Command{
		Use:   "rebuild",
		Short: "Rebuild ClickHouse's copy of the decisions from the topic",
		Long: `The tables decisions, invoices and invoice_usage are copies of the topic for SQL. This empties them and
fills them again from the topic. If they have other decisions than the topic, the tables or the topic were
changed: the command refuses and prints the first offset, since the tables may be the only remaining record. A
rebuild is itself recorded as a decision: who, and where tables and topic ended before.`,
		Examples: []string{"gputally audit rebuild --data DIR --by alice", "after verify found the tables wrong"},
		Takes:    cli.Data | cli.By,
		Flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&over, "over-contradiction", false, "drop tables that contradict the topic, on the record")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return ask.Rebuild(ctx, s, over) },
	}
}

func auditRestoreCommand() cli.Command {
	var from string
	var over bool
	return cli.Command{
		Use:   "restore",
		Short: "Bring lost decisions back from their copy",
		Long: `Appends what the copy has and the topic lacks, with the same bytes at the same offsets, and compares the
chain. The topic must be empty or the copy's beginning: where it differs, this refuses and names the first offset.
If the command is interrupted, give it again. A copy that contradicts ClickHouse's tables or the witness's file is
refused before anything is appended; --over-contradiction drops such tables instead, which is recorded. A restore
is itself a decision. Nothing else may decide meanwhile.`,
		Examples: []string{
			"gputally audit restore --data DIR --from DIR/" + datadir.CopyDir + " --by alice",
			"after the topic was lost",
		},
		Takes:   cli.Data | cli.By,
		Resumes: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&from, "from", "", "`DIR`ectory of the copy (decisions.copy_dir)")
			flags.BoolVar(&over, "over-contradiction", false, "drop tables that contradict the copy, on the record")
		},
		Needs: []string{"from"},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return ask.Restore(ctx, s, from, over)
		},
	}
}
