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
	"github.com/gputally/gputally/analyzer/pattern"
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
	if rates == nil {
		rates = episode.NoRates{}
	}
	return find(ctx, db, config, rates, from, to, sources{
		runs: func(newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error) {
			return readRuns(ctx, db, config.Idle, newest, heldHoursSQL, begin, end)
		},
		others: func(from, to time.Time) ([]episode.Episode, error) {
			return findOthers(ctx, db, config, rates, from, to)
		},
	})
}

// sources read the ledger: the runs of idle time in a range, and the other findings that a range may overlap.
type sources struct {
	runs   func(newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error)
	others func(from, to time.Time) ([]episode.Episode, error)
}

// findOthers returns the findings of whole hours: spikes, and those about devices and telemetry.
func findOthers(ctx context.Context, db DB, config Config, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	spikes, err := findSpikes(ctx, db, config.OffHours, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find off-hours spikes: %w", err)
	}
	devices, err := findDevices(ctx, db, config.Devices, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find device errors: %w", err)
	}
	return append(spikes, devices...), nil
}

// find is Find with the given sources.
func find(ctx context.Context, db DB, config Config, rates episode.Rates, from, to time.Time, of sources,
) ([]episode.Episode, error) {
	if !from.Before(to) {
		return nil, fmt.Errorf("find episodes: the range from %s to %s is empty", from.Format(time.RFC3339),
			to.Format(time.RFC3339))
	}
	from, to = from.UTC().Truncate(time.Hour), to.UTC().Add(time.Hour-1).Truncate(time.Hour)
	idles, err := findAllIdle(ctx, db, config.Idle, rates, from, to, of.runs)
	if err != nil {
		return nil, fmt.Errorf("find idle allocations: %w", err)
	}
	others, err := of.others(from, to)
	if err != nil {
		return nil, err
	}
	episode.Sort(idles)
	found := slices.Concat(pattern.Find(idles, config.OffHours.Zone), idles, others)
	episode.Sort(found)
	config.Alerts.rate(found)
	given, err := readAlerted(ctx, db, idleBegin(from))
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	config.Alerts.let(found, given)
	return slices.DeleteFunc(found, func(e episode.Episode) bool { return !e.Overlaps(from, to) }), nil
}

// readAlerted returns the published findings that were let through from an instant on.
func readAlerted(ctx context.Context, db DB, from time.Time) (given []alerted, err error) {
	err = each(ctx, db, func(rows driver.Rows) error {
		var a alerted
		var severity string
		if err := rows.Scan(&a.id, &a.at, &a.about, &severity); err != nil {
			return err
		}
		a.at, a.severity = a.at.UTC(), episode.SeverityOf(severity)
		given = append(given, a)
		return nil
	}, alertedSQL, from)
	return given, err
}

// idleBegin is from when idle time must be known: a pattern is of a month.
func idleBegin(from time.Time) time.Time {
	begin := time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC).Add(-pattern.Reach)
	if long := from.Add(-idleReach); long.Before(begin) {
		return long
	}
	return begin
}

// findAllIdle reads the range and its reach, and goes further back only for the GPUs
// that need it: one long allocation must not make a run read all GPUs over its whole
// length.
func findAllIdle(ctx context.Context, db DB, config idle.Config, rates episode.Rates, from, to time.Time,
	runs func(newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error),
) ([]episode.Episode, error) {
	begin, end := idleBegin(from), to.Add(idleReach)
	newest, _, err := readNewest(ctx, db, end)
	if err != nil {
		return nil, fmt.Errorf("read newest hours: %w", err)
	}
	all, err := runs(newest, begin, end)
	if err != nil {
		return nil, err
	}
	found := idle.Episodes(config, all, rates)
	older, err := readLong(ctx, db, from, begin)
	if err != nil || len(older.gpus) == 0 {
		return found, err
	}
	long, err := readRuns(ctx, db, config, newest, heldHoursOfGPUsSQL, older.from, end, older.gpus)
	found = slices.DeleteFunc(found, func(e episode.Episode) bool {
		return e.Kind == episode.IdleAllocation && slices.ContainsFunc(e.Leaves, func(l episode.Leaf) bool { return slices.Contains(older.gpus, l.GPU) })
	})
	return append(found, idle.Episodes(config, long, rates)...), err
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

// How much of the ledger is read at once for spikes: the next chunk is twice as long while one has few rows, and half as
// long after one with many.
const (
	leastChunk = 24 * time.Hour
	mostChunk  = 64 * 24 * time.Hour
	fewRows    = 20_000
	manyRows   = 200_000
)

// findSpikes reads the ledger chunk by chunk, so that memory doesn't grow with its length.
func findSpikes(ctx context.Context, db DB, config offhours.Config, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	from, to = from.Add(-offhours.Reach-spikeReach), to.Add(spikeReach)
	seen := map[time.Time][]string{}
	var hours []time.Time // of the ledger
	err := each(ctx, db, func(rows driver.Rows) error {
		var cluster string
		var start time.Time
		var enough bool
		if err := rows.Scan(&cluster, &start, &enough); err != nil {
			return err
		}
		start = start.UTC()
		if hours = append(hours, start); enough {
			seen[start] = append(seen[start], cluster)
		}
		return nil
	}, coverageSQL, from, to)
	if err != nil || len(hours) == 0 {
		return nil, err
	}
	finder := offhours.New(config, rates)
	from, last := hours[0], hours[len(hours)-1]
	for chunk := leastChunk; !from.After(last); {
		end := from.Add(chunk)
		if end.After(last) {
			end = last.Add(time.Hour)
		}
		n, err := addHours(ctx, db, finder, from, end, seen)
		if err != nil {
			return nil, err
		}
		switch from = end; {
		case n < fewRows:
			chunk = min(2*chunk, mostChunk)
		case n > manyRows:
			chunk = max(chunk/2, leastChunk)
		}
	}
	return finder.Episodes(), nil
}

// addHours adds the hours in [from, to) to a finder, and returns how many rows they have.
func addHours(ctx context.Context, db DB, finder *offhours.Finder, from, to time.Time, seen map[time.Time][]string) (n int,
	err error,
) {
	uses := map[time.Time][]offhours.Use{}
	err = each(ctx, db, func(rows driver.Rows) error {
		var u offhours.Use
		err := rows.Scan(&u.Cluster, &u.Tenant, &u.Project, &u.User, &u.Workload, &u.Start, &u.Model, &u.Profile, &u.Slices,
			&u.ProfileSlices, &u.ActiveSliceMS, &u.HeldSliceMS)
		u.Start = u.Start.UTC()
		uses[u.Start] = append(uses[u.Start], u)
		n++
		return err
	}, workloadHoursSQL, from, to)
	for at := from; err == nil && at.Before(to); at = at.Add(time.Hour) {
		err = finder.Hour(at, uses[at], seen[at])
	}
	return n, err
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
