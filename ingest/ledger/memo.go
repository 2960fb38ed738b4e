package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/store"
)

// memo spares a look at all hours the reading of those that stand still. It
// keeps, per cluster and partition, what was read of a partition's hours,
// together with what the partition consisted of before it was read. As parts
// never change, the same parts give the same hours: nothing is remembered that
// could be wrong, and losing the memo costs a reading.
type memo struct {
	mu      sync.Mutex
	journal map[string]map[string]keptHours[journalHour] // cluster, then partition
	ledger  map[string]map[string]keptHours[ledgerHour]
}

func newMemo() memo {
	return memo{journal: map[string]map[string]keptHours[journalHour]{},
		ledger: map[string]map[string]keptHours[ledgerHour]{}}
}

// keptHours are the hours of one partition in one state of it.
type keptHours[T any] struct {
	state string
	hours []T
}

// known are the partitions whose state is still the one they were read in; it
// forgets the others.
func known[T any](kept map[string]keptHours[T], states map[string]string) []string {
	ids := []string{}
	for id, k := range kept {
		if states[id] != k.state {
			delete(kept, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// keep adds what was read to what was known, and gives all of it. Hours of a
// partition without a state are not kept.
func keep[T any](kept map[string]keptHours[T], states map[string]string, read []T, partition func(*T) string) []T {
	var all []T
	for _, k := range kept {
		all = append(all, k.hours...)
	}
	for i := range read {
		id := partition(&read[i])
		if state := states[id]; state != "" {
			kept[id] = keptHours[T]{state, append(kept[id].hours, read[i])}
		}
	}
	return append(all, read...)
}

func of[T any](clusters map[string]map[string]keptHours[T], name string) map[string]keptHours[T] {
	if clusters[name] == nil {
		clusters[name] = map[string]keptHours[T]{}
	}
	return clusters[name]
}

// journalHours are the journal's hours that those from since on rest on,
// ascending.
func (l *Ledger) journalHours(ctx context.Context, c cluster, since time.Time) ([]journalHour, error) {
	read := func(from time.Time, known []string) (rows []journalHour, err error) {
		if err := l.deps.Store.Select(ctx, &rows, selectJournalHours, store.Named("cluster", c.Name),
			store.Named("gap", uint32(meter.GapMaxMS/1000)), store.Named("from", from),
			store.Named("known", known)); err != nil {
			return nil, fmt.Errorf("read journal hours of %s: %w", c.Name, err)
		}
		return rows, nil
	}
	if since.After(everything) {
		return read(since.Add(-backMS*time.Millisecond), []string{})
	}
	states, err := l.deps.Store.PartitionStates(ctx, "batches")
	if err != nil {
		return nil, err
	}
	l.memo.mu.Lock()
	defer l.memo.mu.Unlock()
	kept := of(l.memo.journal, c.Name)
	rows, err := read(everything, known(kept, states))
	if err != nil {
		return nil, err
	}
	rows = keep(kept, states, rows, func(h *journalHour) string { return h.Partition })
	slices.SortFunc(rows, func(a, b journalHour) int { return a.Hour.Compare(b.Hour) })
	return rows, nil
}

// ledgerHours are what the ledger holds of the hours from since on, ascending.
func (l *Ledger) ledgerHours(ctx context.Context, c cluster, since time.Time) ([]ledgerHour, error) {
	read := func(known []string) (rows []ledgerHour, err error) {
		if err := l.deps.Store.Select(ctx, &rows, selectLedgerHours, store.Named("cluster", c.Name),
			store.Named("from", since), store.Named("known", known)); err != nil {
			return nil, fmt.Errorf("read ledger hours of %s: %w", c.Name, err)
		}
		return rows, nil
	}
	if since.After(everything) {
		return read([]string{})
	}
	states, err := l.deps.Store.PartitionStates(ctx, "usage_hourly")
	if err != nil {
		return nil, err
	}
	l.memo.mu.Lock()
	defer l.memo.mu.Unlock()
	kept := of(l.memo.ledger, c.Name)
	rows, err := read(known(kept, states))
	if err != nil {
		return nil, err
	}
	rows = keep(kept, states, rows, func(h *ledgerHour) string { return h.Partition })
	slices.SortFunc(rows, func(a, b ledgerHour) int { return a.Hour.Compare(b.Hour) })
	return rows, nil
}
