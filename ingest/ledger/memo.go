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

// memo saves reading unchanged hours in a look at all hours. For each cluster and
// partition it keeps the hours read from the partition, with the partition's parts
// before it was read. Parts never change, so the same parts give the same hours. The
// memo can't be wrong, and losing it only costs a read.
type memo struct {
	mu      sync.Mutex
	journal map[string]map[string]keptHours[journalHour] // cluster, then partition
	ledger  map[string]map[string]keptHours[ledgerHour]
}

func newMemo() memo {
	return memo{
		journal: map[string]map[string]keptHours[journalHour]{},
		ledger:  map[string]map[string]keptHours[ledgerHour]{},
	}
}

// keptHours are the hours read from one partition in one state.
type keptHours[T any] struct {
	state string
	hours []T
}

// known returns the partitions whose state hasn't changed since they were read; it
// deletes the others from kept.
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

// keep adds the hours read to the kept ones and returns all. Hours of a partition
// without a state are not kept.
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

// journalHours returns the journal's hours that the hours from since on depend on,
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

// ledgerHours returns the ledger's hours from since on, ascending.
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
