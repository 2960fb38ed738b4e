package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/tables"
)

// sealedFor is how long a week takes no more batches before its raw is dropped: a
// chunk that ingest had begun by then is in the journal at its end, and is counted.
const sealedFor = 10 * time.Minute

// look is the state of a cluster's hours.
type look struct {
	cluster
	*overview
}

// Retain drops the raw of the weeks whose retention has passed and for which every
// dependent hour is closed, clean and complete (R3), oldest first, and returns how
// many it dropped. Each step is recorded before it is done: an interrupted drop is
// completed even if the configuration has changed.
func (l *Ledger) Retain(ctx context.Context) (dropped int, err error) {
	l.pass.Lock()
	defer l.pass.Unlock()
	weeks, err := ReadRawWeeks(ctx, l.deps.Store)
	if err != nil {
		return 0, err
	}
	for _, w := range weeks {
		if w.State == weekDropping {
			if err := l.finishDrop(ctx, w); err != nil {
				return dropped, err
			}
			w.State = weekDropped
			weeks[w.Week] = w
			dropped++
		}
	}
	if l.cfg.RawRetention == 0 {
		return dropped, nil
	}
	looks, err := l.lookAtAll(ctx, selectAllClusters)
	if err != nil {
		return dropped, err
	}
	n, err := l.retainFrom(ctx, weeks, looks)
	return dropped + n, err
}

// lookAtAll looks at the clusters that a query lists.
func (l *Ledger) lookAtAll(ctx context.Context, sql string) ([]look, error) {
	clusters, err := l.clusters(ctx, sql)
	if err != nil {
		return nil, err
	}
	epochs, _, err := l.epochs(ctx, false)
	if err != nil {
		return nil, err
	}
	var looks []look
	for _, c := range clusters {
		o, err := l.overview(ctx, c, epochs, everything)
		if err != nil {
			return nil, err
		}
		looks = append(looks, look{c, o})
	}
	return looks, nil
}

// retainFrom continues from the oldest week until one must be kept.
func (l *Ledger) retainFrom(ctx context.Context, weeks RawWeeks, looks []look) (dropped int, err error) {
	looks = slices.DeleteFunc(looks, func(k look) bool { return len(k.hours) == 0 })
	if len(looks) == 0 {
		return 0, nil
	}
	first := slices.MinFunc(looks, func(x, y look) int { return x.hours[0].start.Compare(y.hours[0].start) }).hours[0].start
	now := l.deps.Clock.Now()
	for monday := mondayOf(first); ; monday = monday.Add(weekLength) {
		w := weeks[monday]
		if w.State == weekDropped {
			continue
		}
		if now.Before(monday.Add(weekLength + l.cfg.RawRetention)) {
			return dropped, nil
		}
		if why := keptBy(monday, now.Add(-l.cfg.RawRetention), looks); why != "" {
			l.keep(monday, why)
			return dropped, nil
		}
		switch {
		case w.State == 0:
			if err := l.writeWeek(ctx, tables.RawWeek{Week: monday, State: weekSealed, SealedAt: now}); err != nil {
				return dropped, err
			}
			l.deps.Log.Info("a week is sealed: new batches for it are late, and its raw will be dropped", "week",
				monday.Format(time.DateOnly))
		case !now.Before(w.SealedAt.Add(sealedFor)):
			if err := l.drop(ctx, w); err != nil {
				return dropped, err
			}
			dropped++
		}
	}
}

// keptBy returns why an hour still needs the week's raw, or "". A cluster without a
// slot since endedBefore is regarded as ended: its last hour will not grow.
func keptBy(monday, endedBefore time.Time, looks []look) string {
	from, to := monday.Add(-time.Hour), monday.Add(weekLength+time.Hour)
	for _, k := range looks {
		ended := k.watermarkMS < endedBefore.UnixMilli()
		for _, h := range k.hours {
			inside := !h.start.Before(from) && h.start.Before(to)
			if inside && (h.dirty || (h.untilMS < meter.HourMS && !ended)) {
				return fmt.Sprintf("hour %s of cluster %s has not been computed to its end yet", h.start.Format(time.RFC3339),
					k.Name)
			}
		}
		if next := time.UnixMilli(k.watermarkMS); next.Before(to) && !next.Before(from) && !ended {
			return fmt.Sprintf("cluster %s has only been computed up to %s", k.Name, next.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// keep logs once why a week's raw is kept longer than configured.
func (l *Ledger) keep(monday time.Time, why string) {
	key := "raw of week " + monday.Format(time.DateOnly) + " is kept: " + why
	if l.logged.First(key) {
		l.deps.Log.Warn("raw is kept longer than raw_retention", "week", monday.Format(time.DateOnly), "why", why)
	}
}

// drop records what was published for the week and how many raw rows it had, and then
// drops the raw.
func (l *Ledger) drop(ctx context.Context, w tables.RawWeek) (err error) {
	w.State = weekDropping
	if w.GPUHours, w.UsageSHA256, err = l.published(ctx, w.Week); err != nil {
		return err
	}
	var rows []struct {
		Holds   uint64 `ch:"hold_rows"`
		Samples uint64 `ch:"sample_rows"`
	}
	if err := l.deps.Store.Select(ctx, &rows, selectWeekRows, named(w.Week)); err != nil {
		return fmt.Errorf("count raw of week %s: %w", w.Week.Format(time.DateOnly), err)
	}
	w.HoldRows, w.SampleRows = rows[0].Holds, rows[0].Samples
	if err := l.writeWeek(ctx, w); err != nil {
		return err
	}
	return l.finishDrop(ctx, w)
}

func (l *Ledger) finishDrop(ctx context.Context, w tables.RawWeek) error {
	for _, table := range []string{"holds", "samples"} {
		if err := l.deps.Store.Alter(ctx, table, dropWeek, named(w.Week)); err != nil {
			return fmt.Errorf("drop raw of week %s: %w", w.Week.Format(time.DateOnly), err)
		}
	}
	w.State, w.DroppedAt = weekDropped, l.deps.Clock.Now()
	if err := l.writeWeek(ctx, w); err != nil {
		return err
	}
	l.m.dropped.Inc()
	l.deps.Log.Info("dropped the raw of a week", "week", w.Week.Format(time.DateOnly), "hold_rows", w.HoldRows,
		"sample_rows", w.SampleRows, "gpu_hours", w.GPUHours)
	return nil
}

func named(monday time.Time) any { return store.Named("week", monday.Format(time.DateOnly)) }

// published is the number and the SHA-256 of the week's rows of usage_hourly, in order
// of their key, each preceded by its length; versions are left out.
func (l *Ledger) published(ctx context.Context, monday time.Time) (rows uint64, sum string, err error) {
	hash, line := sha256.New(), new(proto.ColStr)
	err = l.deps.Store.Stream(ctx, proto.Results{{Name: "line", Data: line}}, func(n int) error {
		for i := range n {
			text := line.RowBytes(i)
			hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
			hash.Write(text)
		}
		rows += uint64(n)
		return nil
	}, selectPublished, store.Named("from", monday), store.Named("to", monday.Add(weekLength)))
	if err != nil {
		return 0, "", fmt.Errorf("read the published rows of week %s: %w", monday.Format(time.DateOnly), err)
	}
	return rows, hex.EncodeToString(hash.Sum(nil)), nil
}
