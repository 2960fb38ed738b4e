package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/meter"
)

func (l *Ledger) passCluster(ctx context.Context, c cluster, epochs []epoch, since time.Time) (int, error) {
	o, err := l.overview(ctx, c, epochs, since)
	if err != nil {
		return 0, err
	}
	c.ahead = o.ahead
	l.newest[c.Name] = max(l.newest[c.Name], o.watermarkMS)
	dirty := o.dirty()
	l.m.watermark.WithLabelValues(c.Name).Set(float64(o.watermarkMS) / 1000)
	if closed := o.closedUntil(l.deps.Clock.Now(), l.cfg.CloseAfter); since.Equal(everything) && !closed.IsZero() {
		l.m.closed.WithLabelValues(c.Name).Set(float64(closed.Unix()))
	}
	l.m.dirty.WithLabelValues(c.Name).Set(float64(len(dirty)))
	l.reportStale(c, o, since)
	l.reportLacking(c, o)
	if err := l.reportClosed(ctx, c, dirty); err != nil {
		return 0, err
	}
	return l.work(ctx, c, o, chunks(dirty, l.cfg.MaxRowsInMemory))
}

// reportLacking logs each hour with deleted rows once.
func (l *Ledger) reportLacking(c cluster, o *overview) {
	for _, h := range o.hours {
		if h.lacking == 0 || !l.logged.First(fmt.Sprintf("%s: %d rows of %s are gone", c.Name, h.lacking, h.start)) {
			continue
		}
		l.m.findings.Inc()
		l.deps.Log.Error("published rows of an hour were deleted; the hour counts as open until it is recomputed",
			"cluster", c.Name, "hour", h.start, "rows", h.lacking, "raw_dropped", h.gone)
	}
}

// reportStale logs the hours that would be recomputed if their raw existed.
func (l *Ledger) reportStale(c cluster, o *overview, since time.Time) {
	if !since.Equal(everything) {
		return
	}
	stale := o.stale()
	l.m.stale.WithLabelValues(c.Name).Set(float64(len(stale)))
	if len(stale) > 0 && l.logged.First(fmt.Sprintf("%s: %d stale hours from %s", c.Name, len(stale), stale[0].start)) {
		l.deps.Log.Warn("hours would change if recomputed, but their raw was dropped: they stay as published",
			"cluster", c.Name, "hours", len(stale), "first", stale[0].start, "last", stale[len(stale)-1].start)
	}
}

// work republishes chunks in order. The hours of a refused chunk are tried one by one,
// so that damaged raw delays only its own hours.
func (l *Ledger) work(ctx context.Context, c cluster, o *overview, queue [][]hourState) (done int, err error) {
	var errs []error
	var inv *meter.Inventory
	var next time.Time
	for len(queue) > 0 {
		chunk := queue[0]
		queue = queue[1:]
		if !chunk[0].start.Equal(next) {
			inv = nil
		}
		next = chunk[len(chunk)-1].start.Add(time.Hour)
		var moved bool
		inv, moved, err = l.republish(ctx, c, o.watermarkMS, chunk, inv)
		switch {
		case err == nil:
			done += len(chunk)
			if moved {
				queue = o.requeue(next, queue)
			}
		case !Damaged(err):
			return done, errors.Join(append(errs, err)...)
		case len(chunk) > 1:
			queue = append(oneByOne(chunk), queue...)
		default:
			errs = append(errs, err)
			l.m.refused.Inc()
		}
		l.m.dirty.WithLabelValues(c.Name).Set(float64(hoursIn(queue)))
	}
	return done, errors.Join(errs...)
}

// Damaged reports that the error concerns only some hours: all others are up to date.
func Damaged(err error) bool {
	var refused *Refused
	var unbalanced *meter.UnbalancedError
	return errors.As(err, &refused) || errors.As(err, &unbalanced)
}

func oneByOne(chunk []hourState) [][]hourState {
	out := make([][]hourState, len(chunk))
	for i, h := range chunk {
		out[i] = []hourState{h}
	}
	return out
}

func hoursIn(queue [][]hourState) (n int) {
	for _, chunk := range queue {
		n += len(chunk)
	}
	return n
}

// requeue puts the hour at next before the queue: the nodes of its GPUs depend on hours
// that changed further back than its inputs reach (R14).
func (o *overview) requeue(next time.Time, queue [][]hourState) [][]hourState {
	if len(queue) > 0 && queue[0][0].start.Equal(next) {
		return queue
	}
	for _, h := range o.hours {
		if h.start.Equal(next) && !h.gone {
			return append([][]hourState{{h}}, queue...)
		}
	}
	return queue
}

func (o *overview) dirty() []hourState { return o.where(func(h hourState) bool { return h.dirty }) }

func (o *overview) stale() []hourState { return o.where(func(h hourState) bool { return h.stale }) }

func (o *overview) where(is func(hourState) bool) (out []hourState) {
	for _, h := range o.hours {
		if is(h) {
			out = append(out, h)
		}
	}
	return out
}

// chunkHours is the greatest number of hours computed together.
const chunkHours = 24

// chunks cuts dirty hours into consecutive runs of at most one month, because an
// insert is atomic only within a partition, and of at most maxRows rows of raw and
// journal; an hour with more is a run of its own.
func chunks(hours []hourState, maxRows uint64) [][]hourState {
	var out [][]hourState
	var rows uint64
	for i, h := range hours {
		n := len(out) - 1
		rows += h.rows + h.batches
		if i > 0 && rows <= maxRows && len(out[n]) < chunkHours && h.start.Equal(hours[i-1].start.Add(time.Hour)) &&
			h.start.Month() == hours[i-1].start.Month() {
			out[n] = append(out[n], h)
			continue
		}
		out, rows = append(out, []hourState{h}), h.rows+h.batches
	}
	return out
}
