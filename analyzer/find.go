package analyzer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/analyzer/idle"
	"github.com/gputally/gputally/analyzer/offhours"
)

// Reaches: how far outside the range the ledger is read, so that an episode that
// overlaps the range is found as a whole. A spike ends with the off-hours block it
// lies in.
const (
	idleReach  = 31 * 24 * time.Hour
	spikeReach = 7 * 24 * time.Hour
)

// DB is the part of the store that the analyzer needs.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (driver.Rows, error)
	Insert(ctx context.Context, table string, in proto.Input) error
}

// long are the GPUs with a published idle allocation that began before Find's reach,
// and its start.
type long struct {
	gpus []string
	from time.Time // of their hours
}

// Find returns the episodes that overlap [from, to), as a whole, sorted by start. An
// idle allocation that began more than 31 days before from is cut there, unless it is
// published already: then its GPU is read from 31 days before its start.
func Find(ctx context.Context, db DB, config Config, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	if !from.Before(to) {
		return nil, fmt.Errorf("find episodes: the range from %s to %s is empty", from.Format(time.RFC3339),
			to.Format(time.RFC3339))
	}
	from, to = from.UTC().Truncate(time.Hour), to.UTC().Add(time.Hour-1).Truncate(time.Hour)
	if rates == nil {
		rates = episode.NoRates{}
	}
	idles, err := findAllIdle(ctx, db, config.Idle, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find idle allocations: %w", err)
	}
	spikes, err := findSpikes(ctx, db, config.OffHours, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find off-hours spikes: %w", err)
	}
	found := slices.DeleteFunc(append(idles, spikes...), func(e episode.Episode) bool { return !e.Overlaps(from, to) })
	episode.Sort(found)
	return found, nil
}

// findAllIdle reads the range and its reach, and goes further back only for the GPUs
// that need it: one long allocation must not make a run read all GPUs over its whole
// length.
func findAllIdle(ctx context.Context, db DB, config idle.Config, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	begin, end := from.Add(-idleReach), to.Add(idleReach)
	found, err := findIdle(ctx, db, config, rates, idleHoursSQL, begin, end, config.MinIdlePer10k())
	if err != nil {
		return nil, err
	}
	older, err := readLong(ctx, db, from, begin)
	if err != nil || len(older.gpus) == 0 {
		return found, err
	}
	whole, err := findIdle(ctx, db, config, rates, idleHoursOfGPUsSQL, older.from, end, older.gpus, config.MinIdlePer10k())
	found = slices.DeleteFunc(found, func(e episode.Episode) bool { return slices.Contains(older.gpus, e.GPU) })
	return append(found, whole...), err
}

// readLong returns the published allocations that overlap from and began at begin or
// earlier.
func readLong(ctx context.Context, db DB, from, begin time.Time) (older long, err error) {
	err = each(ctx, db, func(rows driver.Rows) error {
		var gpu string
		var start time.Time
		if err := rows.Scan(&gpu, &start); err != nil {
			return err
		}
		older.gpus, older.from = append(older.gpus, gpu), start.UTC().Add(-idleReach)
		return nil
	}, longIdleSQL, from, begin.Add(time.Hour))
	return older, err
}

func findIdle(ctx context.Context, db DB, config idle.Config, rates episode.Rates, sql string,
	args ...any,
) ([]episode.Episode, error) {
	finder := idle.New(config, rates)
	var h idle.Hour
	err := each(ctx, db, func(rows driver.Rows) error {
		if err := rows.Scan(&h.Cluster, &h.GPU, &h.Leaf, &h.Tenant, &h.Project, &h.Workload, &h.Start,
			&h.Node, &h.User, &h.Model, &h.Slices, &h.LeafSlices,
			&h.ActiveSliceMS, &h.IdleSliceMS, &h.UnprovenSliceMS); err != nil {
			return err
		}
		return finder.Add(h)
	}, sql, args...)
	if err != nil {
		return nil, err
	}
	return finder.Episodes(), nil
}

func findSpikes(ctx context.Context, db DB, config offhours.Config, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	from, to = from.Add(-config.History-spikeReach), to.Add(spikeReach)
	var uses []offhours.Use
	err := each(ctx, db, func(rows driver.Rows) error {
		var u offhours.Use
		defer func() { uses = append(uses, u) }()
		return rows.Scan(&u.Cluster, &u.Tenant, &u.Start, &u.Model, &u.Slices, &u.ActiveSliceMS)
	}, activeHoursSQL, from, to)
	if err != nil {
		return nil, err
	}
	coverage := offhours.Coverage{}
	err = each(ctx, db, func(rows driver.Rows) error {
		var cluster string
		var start time.Time
		if err := rows.Scan(&cluster, &start); err != nil {
			return err
		}
		coverage[cluster] = append(coverage[cluster], start)
		return nil
	}, coverageSQL, from, to)
	if err != nil {
		return nil, err
	}
	return offhours.Find(config, rates, uses, coverage)
}

// each calls take for every row of a query.
func each(ctx context.Context, db DB, take func(driver.Rows) error, sql string, args ...any) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("query ledger: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err has said all by then
	for rows.Next() {
		if err := take(rows); err != nil {
			return fmt.Errorf("read row: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	return nil
}
