package ask

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
)

// Restore brings lost decisions back from a copy. over drops tables that contradict it.
func Restore(ctx context.Context, s *cli.Session, from string, over bool) error {
	return app.WithDecisions(ctx, s, func(p *app.Pipeline) error { return restore(ctx, s, p, from, s.Who(), over) })
}

func restore(ctx context.Context, s *cli.Session, p *app.Pipeline, from, who string, over bool) error {
	bar := cli.NewProgress(s.Stderr, s.Clock, "restore")
	agrees := func(headAt func(int64) decisions.Head) error { return p.Projection.Agrees(ctx, headAt) }
	if over {
		agrees = nil
	}
	n, err := p.Decisions.Restore(ctx, from, agrees, bar.Set)
	bar.Clear()
	if err != nil {
		return err
	}
	if n == 0 {
		return s.Writef("nothing to restore: the topic has all that the copy has\n")
	}
	var end int64
	entry := decisions.Audit{Action: "restore", Subject: "decisions"}
	p.Decisions.View(func(state *decisions.State) {
		end = state.Next()
		entry.Detail = fmt.Sprintf("offsets [%d, %d) from %s; the head is %s", end-n, end, from, state.Head())
	})
	key := "restore/" + rand.Text()
	if _, err := p.Decisions.Append(ctx, decisions.KindAudit, key, decisions.Digest([]byte(key)), who,
		&entry); err != nil {
		return err
	}
	// The tables have the append times of before; where they tell of other
	// decisions, they stay.
	if _, err := p.Projection.Rebuild(ctx, who, over); err != nil {
		return err
	}
	return s.Writef("%s restored; the chain's head is the copy's, %s\n", plural.Of(n, "message"), headAt(p, end-1))
}

func headAt(p *app.Pipeline, offset int64) (head decisions.Head) {
	p.Decisions.View(func(state *decisions.State) { head = state.HeadAt(offset) })
	return head
}

// Rebuild makes ClickHouse's copy of the decisions anew. over drops tables that contradict the topic.
func Rebuild(ctx context.Context, s *cli.Session, over bool) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		n, err := p.Projection.Rebuild(ctx, s.Who(), over)
		if err != nil {
			return err
		}
		return s.Writef("ClickHouse now has %s of the decisions\n", plural.Of(n, "message"))
	})
}
