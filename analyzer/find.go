package analyzer

import (
	"context"
	"fmt"
	"maps"
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

// Find returns the episodes that overlap [from, to), as a whole, sorted by start.
func Find(ctx context.Context, db DB, config Config, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	if rates == nil {
		rates = episode.NoRates{}
	}
	return find(ctx, db, config, rates, from, to, sources{
		runs: func(newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error) {
			return readRuns(ctx, db, config.Idle, newest, begin, end)
		},
		others: func(newest map[string]time.Time, from, to time.Time) ([]episode.Episode, error) {
			return findOthers(ctx, db, config, rates, newest, from, to)
		},
	})
}

// sources read the ledger: the runs of idle time in a range, and the other findings that a range may overlap; newest are
// the newest hours of the clusters that have not ended.
type sources struct {
	runs   func(newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error)
	others func(newest map[string]time.Time, from, to time.Time) ([]episode.Episode, error)
	muted  func(*episode.Episode) bool // nil: none is
}

// findOthers returns the findings of whole hours: spikes, and those about devices and telemetry.
func findOthers(ctx context.Context, db DB, config Config, rates episode.Rates, newest map[string]time.Time, from,
	to time.Time,
) ([]episode.Episode, error) {
	spikes, err := findSpikes(ctx, db, config.OffHours, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find off-hours spikes: %w", err)
	}
	devices, err := findDevices(ctx, db, config.Devices, rates, newest, from, to)
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
	newest, _, err := readNewest(ctx, db, to.Add(idleReach))
	if err != nil {
		return nil, fmt.Errorf("read newest hours: %w", err)
	}
	runs, err := of.runs(newest, idleBegin(from), to.Add(idleReach))
	if err != nil {
		return nil, fmt.Errorf("find idle allocations: %w", err)
	}
	idles := idle.Episodes(config.Idle, runs, rates)
	others, err := of.others(newest, from, to)
	if err != nil {
		return nil, err
	}
	found := slices.Concat(pattern.Find(idles, config.OffHours.Zone), idles, others)
	episode.Sort(found)
	for i := range found {
		found[i].Silenced = of.muted != nil && of.muted(&found[i])
	}
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
		var kind, grade, severity string
		var e episode.Episode
		if err := rows.Scan(&a.id, &a.at, &kind, &grade, &e.Tenant, &severity); err != nil {
			return err
		}
		e.Kind, e.Grade = episode.Kind(kind), episode.Grade(grade)
		a.at, a.about, a.severity = a.at.UTC(), about(&e), episode.SeverityOf(severity)
		given = append(given, a)
		return nil
	}, alertedSQL, from)
	return given, err
}

// idleBegin is from when idle time must be known: a pattern is of a month, and overlaps from by an allocation that began
// up to idleReach before.
func idleBegin(from time.Time) time.Time {
	from = from.Add(-idleReach)
	return time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC).Add(-pattern.Reach)
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
	seen, end, err := readHours(ctx, db, from, to)
	if err != nil || end.IsZero() {
		return nil, err
	}
	over := map[time.Time]map[string]bool{} // by hour and cluster: hours that are over; true: enough was observed
	for _, h := range seen {
		if over[h.hour] == nil {
			over[h.hour] = map[string]bool{}
		}
		if h.over {
			over[h.hour][h.cluster] = h.observed
		}
	}
	finder := offhours.New(config, rates)
	from = seen[0].hour
	for chunk := leastChunk; from.Before(end); {
		next := from.Add(chunk)
		if next.After(end) {
			next = end
		}
		n, err := addHours(ctx, db, finder, from, next, over)
		if err != nil {
			return nil, err
		}
		switch from = next; {
		case n < fewRows:
			chunk = min(2*chunk, mostChunk)
		case n > manyRows:
			chunk = max(chunk/2, leastChunk)
		}
	}
	return finder.Episodes(), nil
}

// seenHour is an hour of a cluster.
type seenHour struct {
	cluster  string
	hour     time.Time
	observed bool // at least half of it
	over     bool
}

// readHours returns the clusters' hours in [from, to), by hour, and the end of the last that is over; zero: there is
// none.
func readHours(ctx context.Context, db DB, from, to time.Time) (seen []seenHour, end time.Time, err error) {
	err = each(ctx, db, func(rows driver.Rows) error {
		var s seenHour
		if err := rows.Scan(&s.cluster, &s.hour, &s.observed, &s.over); err != nil {
			return err
		}
		s.hour = s.hour.UTC()
		if seen = append(seen, s); s.over {
			end = s.hour.Add(time.Hour)
		}
		return nil
	}, seenHoursSQL, from, to)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read observed hours: %w", err)
	}
	return seen, end, nil
}

// addHours adds the hours in [from, to) that are over to a finder, and returns how many rows they have.
func addHours(ctx context.Context, db DB, finder *offhours.Finder, from, to time.Time,
	over map[time.Time]map[string]bool,
) (n int, err error) {
	uses := map[time.Time][]offhours.Use{}
	err = each(ctx, db, func(rows driver.Rows) error {
		var u offhours.Use
		err := rows.Scan(&u.Cluster, &u.Tenant, &u.Project, &u.User, &u.Workload, &u.Start, &u.Model, &u.Profile, &u.Slices,
			&u.ProfileSlices, &u.ActiveSliceMS, &u.HeldSliceMS)
		u.Start = u.Start.UTC()
		if _, isOver := over[u.Start][u.Cluster]; isOver {
			uses[u.Start] = append(uses[u.Start], u)
		}
		n++
		return err
	}, workloadHoursSQL, from, to)
	for at := from; err == nil && at.Before(to); at = at.Add(time.Hour) {
		var seen []string
		for _, cluster := range slices.Sorted(maps.Keys(over[at])) {
			if over[at][cluster] {
				seen = append(seen, cluster)
			}
		}
		err = finder.Hour(at, uses[at], seen)
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
