package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/check"
)

// goneHours counts the hours that verify can't recompute.
type goneHours struct{ hours, stale int }

func (g *goneHours) note(h hourState) {
	if h.gone && (h.inputs > 0 || h.published) {
		g.hours++
	}
	if h.stale {
		g.stale++
	}
}

// checkDropped holds the rows of the weeks whose raw was dropped against what
// was written down of them then.
func (l *Ledger) checkDropped(ctx context.Context, gone *goneHours, res *check.Result) error {
	weeks, err := ReadRawWeeks(ctx, l.deps.Store)
	if err != nil {
		return err
	}
	held := 0
	for _, w := range weeks {
		if w.State < weekDropping {
			continue
		}
		rows, sum, err := l.published(ctx, w.Week)
		if err != nil {
			return err
		}
		held += int(rows)
		if rows != w.GPUHours || sum != w.UsageSHA256 {
			res.Fail("week %s: %d GPU-hours with SHA-256 %s, but %d with %s when its raw was dropped",
				w.Week.Format(time.DateOnly), rows, sum, w.GPUHours, w.UsageSHA256)
		}
	}
	if gone.hours > 0 {
		res.Say(fmt.Sprintf(
			"%d cluster-hours at %d weeks without raw are not recomputed, %d GPU-hours of those weeks equal what was "+
				"published; %d of the hours need a manual adjustment",
			gone.hours, len(weeks.Dropped()), held, gone.stale))
	}
	return nil
}
