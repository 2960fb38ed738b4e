package load

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
)

// DeclareCluster declares a cluster for live collectors, with slots of this length.
func DeclareCluster(ctx context.Context, s *cli.Session, name string, slot time.Duration) error {
	if err := settings.ValidateSlot(slot); err != nil {
		return cli.UsageError(fmt.Errorf("--slot: %w", err))
	}
	return app.WithBroker(ctx, s, func(p *app.Pipeline) error {
		if err := p.OtherSlots(ctx, name, slot); err != nil {
			return err
		}
		if err := p.Declare(ctx, name, slot); err != nil {
			return err
		}
		return s.Writef("cluster %s is declared, with slots of %s\n", cli.Printable(name), slot)
	})
}

// ListRuns prints the runs that are open, or all.
func ListRuns(ctx context.Context, s *cli.Session, all bool) error {
	return app.WithBroker(ctx, s, func(p *app.Pipeline) error {
		if err := p.Follow().Refresh(ctx); err != nil {
			return err
		}
		t := cli.Table{Columns: cli.Columns("id", "state", "cluster", "sends", "collector", "slot", "from",
			"to", "opened", "by", "ends", "ended_by")}
		p.Follow().View(func(state *decisions.State) {
			for _, r := range state.Runs() {
				word, b := "open", &r.Body
				if !s.Clock.Now().Before(r.Ends) {
					word = "ended"
				}
				if word == "ended" && !all {
					continue
				}
				t.Rows = append(t.Rows, []string{
					b.ID, word, b.Cluster, b.Sends, b.Collector, (time.Duration(b.SlotMS) * time.Millisecond).String(),
					b.From.Format(time.RFC3339), b.To.Format(time.RFC3339), r.Appended.Format(time.RFC3339), r.Who,
					r.Ends.Format(time.RFC3339), r.Ended,
				})
			}
		})
		return s.Print(t)
	})
}

// OpenRun opens a run manually.
func OpenRun(ctx context.Context, s *cli.Session, r decisions.Run, slot time.Duration, from, to cli.Instant) error {
	r.SlotMS, r.From, r.To = slot.Milliseconds(), from.At, to.At
	if err := r.Check(); err != nil {
		return cli.UsageError(err)
	}
	return app.WithBroker(ctx, s, func(p *app.Pipeline) error {
		if err := p.OtherSlots(ctx, r.Cluster, slot); err != nil {
			return err
		}
		id, err := p.NewRun(ctx, r)
		if err != nil {
			return err
		}
		return s.Writef("run %s is open for %s; gputally import runs close %s%s ends it\n", id,
			plural.Of(r.Hours, "hour"), id, p.Access.OnData())
	})
}

// CloseRun ends a run.
func CloseRun(ctx context.Context, s *cli.Session, id string) error {
	return app.WithBroker(ctx, s, func(p *app.Pipeline) error {
		if err := p.Decide(ctx, decisions.KindRunEnd, "run_end/"+id, &decisions.RunEnd{ID: id}); err != nil {
			return err
		}
		return s.Writef("run %s has ended\n", id)
	})
}
