package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/store"
)

// ahead returns the clusters whose journal reaches beyond this service's clock, with
// the watermarks up to which they are counted, Unix s.
func (l *Ledger) ahead(ctx context.Context) (names []string, until []uint32, err error) {
	clusters, err := l.clusters(ctx, selectClusters)
	if err != nil {
		return nil, nil, err
	}
	names, until = []string{}, []uint32{}
	for _, c := range clusters {
		journal, err := l.journalHours(ctx, c, everything)
		if err != nil {
			return nil, nil, err
		}
		past, ahead := l.past(c, journal)
		switch {
		case ahead && len(past) == 0:
			names, until = append(names, c.Name), append(until, 0)
		case ahead:
			names, until = append(names, c.Name), append(until, uint32(past[len(past)-1].EndMS/1000))
		}
	}
	return names, until, nil
}

// changesOfClosed finds the batches that arrived for hours of [from, to) after these
// had been closed (R3).
func (l *Ledger) changesOfClosed(ctx context.Context, c cluster, from, to time.Time) (findings []string, err error) {
	var rows []struct {
		Node      string    `ch:"node"`
		Hour      time.Time `ch:"hour"`
		Collector string    `ch:"collector"`
		Last      time.Time `ch:"last"`
	}
	if err := l.deps.Store.Select(ctx, &rows, selectLateChanges, store.Named("cluster", c.Name),
		store.Named("from", from), store.Named("to", to),
		store.Named("after", uint32(l.cfg.CloseAfter.Seconds()))); err != nil {
		return nil, fmt.Errorf("read batches for closed hours of %s: %w", c.Name, err)
	}
	for _, r := range rows {
		findings = append(findings,
			fmt.Sprintf("node %q, hour %s: batches of collector %q arrived after the hour was closed, the last at %s",
				r.Node, r.Hour.UTC().Format(time.RFC3339), r.Collector, r.Last.UTC().Format(time.RFC3339)))
	}
	return findings, nil
}

// reportClosed logs the batches that arrived for closed hours which are about to be
// recomputed.
func (l *Ledger) reportClosed(ctx context.Context, c cluster, dirty []hourState) error {
	old := l.deps.Clock.Now().Add(-l.cfg.CloseAfter)
	var from, to time.Time
	for _, h := range dirty {
		if end := h.start.Add(time.Hour); h.published && !end.After(old) {
			if from.IsZero() {
				from = h.start
			}
			to = end
		}
	}
	if from.IsZero() {
		return nil
	}
	findings, err := l.changesOfClosed(ctx, c, from, to)
	l.report(c, findings)
	return err
}

// noteFindings adds the findings of a cluster's recomputation to the result, each
// once.
func (l *Ledger) noteFindings(ctx context.Context, c cluster, hours []hourState, found []string,
	res *check.Result,
) error {
	if len(hours) > 0 {
		late, err := l.changesOfClosed(ctx, c, hours[0].start, hours[len(hours)-1].start.Add(time.Hour))
		if err != nil {
			return err
		}
		found = append(found, late...)
	}
	noted := map[string]bool{}
	for _, f := range found {
		if !noted[f] {
			noted[f] = true
			res.Note(fmt.Sprintf("cluster %q, %s", c.Name, f))
		}
	}
	return nil
}
