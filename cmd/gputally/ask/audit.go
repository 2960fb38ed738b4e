package ask

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

func auditRow(e decisions.Entry) []string {
	outcome := "accepted"
	switch {
	case e.Repeats >= 0:
		outcome = fmt.Sprintf("repeats offset %d", e.Repeats)
	case !e.Accepted:
		outcome = "refused: " + e.Reason
	}
	return []string{
		strconv.FormatInt(e.Offset, 10), e.Appended.Format(time.RFC3339), string(e.Kind), e.Record.Who, decidedOn(e),
		outcome, e.Chain,
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

// compare compares the chain with a head that was noted.
func compare(log *decisions.Log, noted decisions.Head) error {
	var now decisions.Head
	log.View(func(state *decisions.State) { now = state.HeadAt(noted.Offset) })
	switch now.Chain {
	case noted.Chain:
		return nil
	case "":
		return fmt.Errorf("compare the chain: there is no offset %d any more", noted.Offset)
	}
	return fmt.Errorf("compare the chain: after offset %d it is %s, not %s: something up to there was changed",
		noted.Offset,
		now.Chain, noted.Chain)
}

// Audit lists what was decided, from an offset on, and compares the chain with what was noted;
// the zero head: nothing was.
func Audit(ctx context.Context, s *cli.Session, from int64, parts bool, expect decisions.Head) error {
	if from < 0 {
		return cli.UsageError(fmt.Errorf("--from %d: want 0 or more", from))
	}
	return app.WithDecisions(ctx, s, func(p *app.Pipeline) error {
		t := cli.Table{Columns: cli.Columns("offset number", "appended", "kind", "who", "what", "outcome wide",
			"chain wide")}
		err := p.Decisions.Walk(ctx, from, func(e decisions.Entry) error {
			if e.Kind != decisions.KindPart || parts {
				t.Rows = append(t.Rows, auditRow(e))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.Print(t); err != nil {
			return err
		}
		if _, _, err := p.Decisions.Compare(); err != nil {
			return err
		}
		if expect.Chain == "" {
			return nil
		}
		if err := compare(p.Decisions, expect); err != nil || s.Format != cli.AsTable {
			return err
		}
		return s.Writef("\nAfter offset %d the chain is what was noted: nothing up to there was changed.\n", expect.Offset)
	})
}
