package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
)

// retirements are the times at which GPUs were retired (R2), by GPU: starts of slots,
// Unix ms, ascending.
type retirements map[string][]int64

// readRetirements reads the cluster's retirements.
func (l *Ledger) readRetirements(ctx context.Context, c cluster) (retirements, error) {
	var rows []struct {
		GPU string    `ch:"gpu"`
		At  time.Time `ch:"at"`
	}
	if err := l.deps.Store.Select(ctx, &rows, selectRetirements, store.Named("cluster", c.Name)); err != nil {
		return nil, fmt.Errorf("read retirements of %s: %w", c.Name, err)
	}
	out := retirements{}
	for _, r := range rows {
		out[r.GPU] = append(out[r.GPU], slotStart(c, r.At))
	}
	return out, nil
}

// slotStart is the start of the slot that contains an instant, Unix ms. A cluster
// without slots has no GPU to retire.
func slotStart(c cluster, at time.Time) int64 {
	ms := at.UnixMilli()
	return ms - ms%max(int64(c.SlotMS), 1)
}

// perHour counts the retirements by hour: they are inputs of that hour and of the day
// after it, as the rows of the journal are.
func (c retirements) perHour() map[int64]uint64 {
	n := map[int64]uint64{}
	for _, cuts := range c {
		for _, at := range cuts {
			n[at-at%meter.HourMS]++
		}
	}
	return n
}

// near returns the retirements on which hours between from and to can depend.
func (c retirements) near(from, to time.Time) retirements {
	var out retirements
	lo, hi := from.UnixMilli()-backMS, to.UnixMilli()
	for gpu, cuts := range c {
		for _, at := range cuts {
			if at < lo || at >= hi {
				continue
			}
			if out == nil {
				out = retirements{}
			}
			out[gpu] = append(out[gpu], at)
		}
	}
	return out
}
