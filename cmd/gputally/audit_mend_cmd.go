package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/decisions"
)

func (s *session) auditRebuildCommand() *cobra.Command {
	var over bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make ClickHouse's copy of the decisions anew",
		Long: "The tables decisions, invoices and invoice_usage hold for SQL what the topic says. This empties them and fills them\n" +
			"again from the topic. Where they tell of other decisions than the topic, one of both was changed: it refuses, and\n" +
			"names the first offset, for the tables may be all that still tells what was decided. A rebuild is itself a\n" +
			"decision: who, and where tables and topic ended before.",
		Example: examples("gputally audit rebuild --data DIR --by alice", "after verify found the tables wrong"),
		Args:    cobra.NoArgs,
	}
	data, by := dataFlag(cmd), byFlag(cmd)
	cmd.Flags().BoolVar(&over, "over-contradiction", false, "drop tables that contradict the topic, on the record")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			n, err := p.projection.Rebuild(ctx, cmp.Or(*by, currentUser(), "unknown"), over)
			if err != nil {
				return err
			}
			return s.writef("%d messages of the decisions are in ClickHouse\n", n)
		})
	})
	return cmd
}

func (s *session) auditRestoreCommand() *cobra.Command {
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
		Example: examples("gputally audit restore --data DIR --from DIR/"+copyName+" --by alice", "after the topic was lost"),
		Args:    cobra.NoArgs,
	}
	data, by := dataFlag(cmd), byFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "`DIR`ectory of the copy (decisions.copy_dir)")
	cmd.Flags().BoolVar(&over, "over-contradiction", false, "drop tables that contradict the copy, on the record")
	_ = cmd.MarkFlagRequired("from") // fails only for a flag that isn't there
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		s.resumes = true
		return s.withDecisions(ctx, *data, func(p *pipeline) error {
			return s.restore(ctx, p, from, cmp.Or(*by, currentUser(), "unknown"), over)
		})
	})
	return cmd
}

func (s *session) restore(ctx context.Context, p *pipeline, from, who string, over bool) error {
	bar := newProgress(s.stderr, s.clock, "restore")
	agrees := func(headAt func(int64) decisions.Head) error { return p.projection.Agrees(ctx, headAt) }
	if over {
		agrees = nil
	}
	n, err := p.decisions.Restore(ctx, from, agrees, bar.Set)
	bar.Clear()
	if err != nil {
		return err
	}
	if n == 0 {
		return s.writef("nothing to restore: the topic has all that the copy has\n")
	}
	var end int64
	entry := decisions.Audit{Action: "restore", Subject: "decisions"}
	p.decisions.View(func(state *decisions.State) {
		end = state.Next()
		entry.Detail = fmt.Sprintf("offsets [%d, %d) from %s; the head is %s", end-n, end, from, state.Head())
	})
	key := "restore/" + rand.Text()
	if _, err := p.decisions.Append(ctx, decisions.KindAudit, key, decisions.Digest([]byte(key)), who, &entry); err != nil {
		return err
	}
	// The tables have the append times of before; where they tell of other
	// decisions, they stay.
	if _, err := p.projection.Rebuild(ctx, who, over); err != nil {
		return err
	}
	return s.writef("%d messages are restored; the chain's head is the copy's, %s\n", n, headAt(p, end-1))
}

func headAt(p *pipeline, offset int64) (head decisions.Head) {
	p.decisions.View(func(state *decisions.State) { head = state.HeadAt(offset) })
	return head
}
