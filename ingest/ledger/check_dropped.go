package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/plural"
)

// goneHours counts the hours that verify can't recompute because their raw was
// dropped.
type goneHours struct{ hours, stale int }

func (g *goneHours) note(h hourState) {
	if h.gone && (h.inputs > 0 || h.published) {
		g.hours++
	}
	if h.stale {
		g.stale++
	}
}

// checkDropped compares the rows of the weeks whose raw was dropped with the count and
// hash that were recorded at that time.
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
			res.Fail("week %s: %s with SHA-256 %s, but %d with %s when its raw was dropped", w.Week.Format(time.DateOnly),
				plural.Of(rows, "GPU-hour"), sum, w.GPUHours, w.UsageSHA256)
		}
	}
	if gone.hours > 0 {
		res.Say(fmt.Sprintf(
			"not recomputed, because raw was dropped: %s of %s; GPU-hours there that equal what was published: %d; stale "+
				"hours, which stay as published: %d",
			plural.Of(gone.hours, "cluster-hour"), plural.Of(len(weeks.Dropped()), "week"), held, gone.stale))
	}
	return nil
}
