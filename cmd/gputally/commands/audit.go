package commands

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

func auditCommand(s *cli.Session) *cobra.Command {
	var from int64
	var expect ask.ExpectFlag
	var parts bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List what was decided: by whom, when, accepted or refused, with the hash chain",
		Long: "Every finalised invoice, note, approval, price book and mapping is a record in one ordered topic. The chain is a hash\n" +
			"over all of it up to a record: note its last value somewhere else, and --expect shows later that nothing before it\n" +
			"was changed (exit code 1 when it was). Records are read again and compared with the chain as they are listed, and\n" +
			"with their copy (decisions.copy_dir) and their witness (decisions.witness.file).",
		Example: cli.Examples(
			"gputally audit --data DIR", "all decisions",
			"gputally audit --data DIR --expect 17=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "is the past what it was?",
		),
		Args: cobra.NoArgs,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.Flags().Int64Var(&from, "from", 0, "first `OFFSET` to list")
	cmd.Flags().BoolVar(&parts, "parts", false, "list the parts of documents, too")
	cmd.Flags().Var(&expect, "expect", "`OFFSET=HASH`: the chain's value after an offset, noted before")
	cmd.AddCommand(auditRebuildCommand(s), auditRestoreCommand(s))
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if from < 0 {
			return cli.UsageError(fmt.Errorf("--from %d: want 0 or more", from))
		}
		return app.WithDecisions(ctx, s, *data, func(p *app.Pipeline) error {
			t := cli.Table{Columns: append([]cli.Column{{Name: "offset", Number: true}}, append(cli.TextColumns([]string{"appended", "kind", "who", "what"}),
				cli.Column{Name: "outcome", Wide: true}, cli.Column{Name: "chain", Wide: true})...)}
			err := p.Decisions.Walk(ctx, from, func(e decisions.Entry) error {
				if e.Kind != decisions.KindPart || parts {
					t.Rows = append(t.Rows, ask.AuditRow(e))
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := t.Write(s.Stdout, *o, cli.Colour(s.Stdout)); err != nil {
				return err
			}
			if _, _, err := p.Decisions.Compare(); err != nil {
				return err
			}
			if err := expect.Check(p.Decisions); err != nil || expect.Chain == "" || *o != cli.OutputTable {
				return err
			}
			return s.Writef("\nAfter offset %d the chain is what was noted: nothing up to there was changed.\n", expect.Offset)
		})
	})
	return cmd
}

func auditRebuildCommand(s *cli.Session) *cobra.Command {
	var over bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make ClickHouse's copy of the decisions anew",
		Long: "The tables decisions, invoices and invoice_usage hold for SQL what the topic says. This empties them and fills them\n" +
			"again from the topic. Where they tell of other decisions than the topic, one of both was changed: it refuses, and\n" +
			"names the first offset, for the tables may be all that still tells what was decided. A rebuild is itself a\n" +
			"decision: who, and where tables and topic ended before.",
		Example: cli.Examples("gputally audit rebuild --data DIR --by alice", "after verify found the tables wrong"),
		Args:    cobra.NoArgs,
	}
	data, by := cli.DataFlag(cmd), cli.ByFlag(cmd)
	cmd.Flags().BoolVar(&over, "over-contradiction", false, "drop tables that contradict the topic, on the record")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			n, err := p.Projection.Rebuild(ctx, cmp.Or(*by, cli.CurrentUser(), "unknown"), over)
			if err != nil {
				return err
			}
			return s.Writef("%d messages of the decisions are in ClickHouse\n", n)
		})
	})
	return cmd
}

func auditRestoreCommand(s *cli.Session) *cobra.Command {
	var from string
	var over bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Bring lost decisions back from their copy",
		Long: "Appends what the copy has and the topic lacks, with the same bytes at the same offsets, and compares the chain. The\n" +
			"topic must be empty or the copy's beginning: where it differs, this refuses and names the first offset. What was\n" +
			"interrupted goes on when it is given again. A copy that contradicts ClickHouse's tables or the witness's file is\n" +
			"refused before anything is appended; --over-contradiction drops such tables instead, on the record. A restore is\n" +
			"itself a decision. Nothing else may decide meanwhile.",
		Example: cli.Examples("gputally audit restore --data DIR --from DIR/"+app.CopyName+" --by alice", "after the topic was lost"),
		Args:    cobra.NoArgs,
	}
	data, by := cli.DataFlag(cmd), cli.ByFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "`DIR`ectory of the copy (decisions.copy_dir)")
	cmd.Flags().BoolVar(&over, "over-contradiction", false, "drop tables that contradict the copy, on the record")
	_ = cmd.MarkFlagRequired("from") // fails only for a flag that isn't there
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		s.Resumes = true
		return app.WithDecisions(ctx, s, *data, func(p *app.Pipeline) error {
			return ask.Restore(ctx, s, p, from, cmp.Or(*by, cli.CurrentUser(), "unknown"), over)
		})
	})
	return cmd
}
