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

// memo saves reading unchanged hours of a table in a look at all hours. For each
// cluster and partition it keeps the hours read from the partition, with the
// partition's parts before it was read. Parts never change, so the same parts give the
// same hours. The memo can't be wrong, and losing it only costs a read.
type memo[T any] struct {
	mu       sync.Mutex
	clusters map[string]map[string]keptHours[T] // cluster, then partition
}

// all returns the hours of all partitions, ascending; read gets the partitions that
// need not be read.
func (m *memo[T]) all(ctx context.Context, db Store, table, cluster string, at func(*T) (time.Time, string),
	read func(known []string) ([]T, error),
) ([]T, error) {
	states, err := db.PartitionStates(ctx, table)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clusters == nil {
		m.clusters = map[string]map[string]keptHours[T]{}
	}
	if m.clusters[cluster] == nil {
		m.clusters[cluster] = map[string]keptHours[T]{}
	}
	kept := m.clusters[cluster]
	rows, err := read(known(kept, states))
	if err != nil {
		return nil, err
	}
	rows = keep(kept, states, rows, at)
	slices.SortFunc(rows, func(a, b T) int {
		x, _ := at(&a)
		y, _ := at(&b)
		return x.Compare(y)
	})
	return rows, nil
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
func keep[T any](kept map[string]keptHours[T], states map[string]string, read []T, at func(*T) (time.Time, string)) []T {
	var all []T
	for _, k := range kept {
		all = append(all, k.hours...)
	}
	for i := range read {
		_, id := at(&read[i])
		if state := states[id]; state != "" {
			kept[id] = keptHours[T]{state, append(kept[id].hours, read[i])}
		}
	}
	return append(all, read...)
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
	at := func(h *journalHour) (time.Time, string) { return h.Hour, h.Partition }
	return l.journal.all(ctx, l.deps.Store, "batches", c.Name, at,
		func(known []string) ([]journalHour, error) { return read(everything, known) })
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
	at := func(h *ledgerHour) (time.Time, string) { return h.Hour, h.Partition }
	return l.ledger.all(ctx, l.deps.Store, "usage_hourly", c.Name, at, read)
}
