package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/decisions"
)

func (s *session) auditCommand() *cobra.Command {
	var from int64
	var expect expectFlag
	var parts bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List what was decided: by whom, when, accepted or refused, with the hash chain",
		Long: "Every finalised invoice, note, approval, price book and mapping is a record in one ordered topic. The chain is a hash\n" +
			"over all of it up to a record: note its last value somewhere else, and --expect shows later that nothing before it\n" +
			"was changed (exit code 1 when it was). Records are read again and compared with the chain as they are listed, and\n" +
			"with their copy (decisions.copy_dir) and their witness (decisions.witness.file).",
		Example: examples(
			"gputally audit --data DIR", "all decisions",
			"gputally audit --data DIR --expect 17=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "is the past what it was?",
		),
		Args: cobra.NoArgs,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.Flags().Int64Var(&from, "from", 0, "first `OFFSET` to list")
	cmd.Flags().BoolVar(&parts, "parts", false, "list the parts of documents, too")
	cmd.Flags().Var(&expect, "expect", "`OFFSET=HASH`: the chain's value after an offset, noted before")
	cmd.AddCommand(s.auditRebuildCommand(), s.auditRestoreCommand())
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if from < 0 {
			return usageError{fmt.Errorf("--from %d: want 0 or more", from)}
		}
		return s.withDecisions(ctx, *data, func(p *pipeline) error {
			t := table{columns: append([]column{{name: "offset", number: true}}, append(textColumns([]string{"appended", "kind", "who", "what"}),
				column{name: "outcome", wide: true}, column{name: "chain", wide: true})...)}
			err := p.decisions.Walk(ctx, from, func(e decisions.Entry) error {
				if e.Kind != decisions.KindPart || parts {
					t.rows = append(t.rows, auditRow(e))
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := t.write(s.stdout, *o, colour(s.stdout)); err != nil {
				return err
			}
			if _, _, err := p.decisions.Compare(); err != nil {
				return err
			}
			if err := expect.check(p.decisions); err != nil || expect.Chain == "" || *o != outputTable {
				return err
			}
			return s.writef("\nAfter offset %d the chain is what was noted: nothing up to there was changed.\n", expect.Offset)
		})
	})
	return cmd
}

func auditRow(e decisions.Entry) []string {
	outcome := "accepted"
	switch {
	case e.Repeats >= 0:
		outcome = fmt.Sprintf("repeats offset %d, which stands", e.Repeats)
	case !e.Accepted:
		outcome = "refused: " + e.Reason
	}
	return []string{
		strconv.FormatInt(e.Offset, 10), e.Appended.Format(time.RFC3339), string(e.Kind), e.Record.Who, decidedOn(e), outcome, e.Chain,
	}
}

// decidedOn is the entry's subject, in the words that fit a terminal.
func decidedOn(e decisions.Entry) string {
	switch b := e.Body.(type) {
	case *decisions.Invoice:
		return b.Number + ": " + b.Total + " " + b.Currency
	case *decisions.PriceBook:
		return b.Name
	case *decisions.Freeze:
		const minute = "2006-01-02T15:04Z" // hours are whole; both fit a terminal's column
		return b.From.UTC().Format(minute) + " to " + b.To.UTC().Format(minute)
	}
	return e.Subject()
}

// expectFlag is a head of the decisions that somebody noted.
type expectFlag struct{ decisions.Head }

// Type is what help calls the flag's value.
func (e *expectFlag) Type() string { return "OFFSET=HASH" }

// Set reads an offset and the chain's value after it.
func (e *expectFlag) Set(text string) (err error) {
	e.Head, err = decisions.ParseHead(text)
	return err
}

// check compares the chain with what was noted.
func (e *expectFlag) check(log *decisions.Log) error {
	if e.Chain == "" {
		return nil
	}
	var now decisions.Head
	log.View(func(state *decisions.State) { now = state.HeadAt(e.Offset) })
	switch now.Chain {
	case e.Chain:
		return nil
	case "":
		return fmt.Errorf("compare the chain: there is no offset %d any more", e.Offset)
	}
	return fmt.Errorf("compare the chain: after offset %d it is %s, not %s: something up to there was changed", e.Offset, now.Chain, e.Chain)
}
