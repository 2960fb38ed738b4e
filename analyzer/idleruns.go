package analyzer

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/analyzer/idle"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
)

// known is what a service remembers of idle time, so that a run reads only the newest hours: the runs of idle time in
// [from, until), and what was open then.
type known struct {
	from, until time.Time
	summed      time.Time // sum is of the rows' versions in [summed, until)
	sum         uint64
	built       time.Time
	finder      *idle.Finder
	runs        []idle.Run // that have ended
}

const (
	// unsettled is the newest part of the ledger, which is read by every run.
	unsettled = 3 * time.Hour
	// watched is the part before it whose rows are compared with those that were read, by every run; the ledger
	// keeps hours open for 72 hours.
	watched = 96 * time.Hour
	// renewed is how long earlier hours are relied on: late data change them seldom.
	renewed = 6 * time.Hour
	// surplus is how much more than necessary may be remembered.
	surplus = 7 * 24 * time.Hour
)

// idleRuns returns the runs of idle time in [begin, end), as readRuns does.
func (s *Service) idleRuns(ctx context.Context, newest map[string]time.Time, begin, end time.Time) ([]idle.Run, error) {
	until := end
	for _, hour := range newest {
		if settled := hour.Add(-unsettled); settled.Before(until) {
			until = settled
		}
	}
	if err := s.refreshKnown(ctx, begin, until); err != nil {
		s.known = nil
		return nil, err
	}
	if s.known == nil { // the ledger is younger than what is settled
		return readRuns(ctx, s.deps.DB, s.config.Idle, newest, begin, end)
	}
	runs := slices.Clone(s.known.runs)
	finder := s.known.finder.Clone(func(r idle.Run) { runs = append(runs, r) })
	if err := addRuns(ctx, s.deps.DB, finder, heldHoursSQL, s.known.until, end); err != nil {
		return nil, err
	}
	return append(runs, finder.Unfinished(newest)...), nil
}

// refreshKnown brings what is remembered to until: by the hours that were added since, or all of it anew if rows that
// were read have changed.
func (s *Service) refreshKnown(ctx context.Context, begin, until time.Time) error {
	if !begin.Before(until) {
		s.known = nil
		return nil
	}
	k, now := s.known, s.deps.Clock.Now()
	// What changes from here on differs from this sum; what changed before is seen by the comparison of the last one.
	summed := until.Add(-watched)
	sum, err := s.sumVersions(ctx, summed, until)
	if err != nil {
		return err
	}
	fresh := k != nil && !k.from.After(begin) && begin.Sub(k.from) <= surplus && !k.until.After(until) &&
		now.Sub(k.built) < renewed
	if fresh {
		last := sum
		if !k.until.Equal(until) {
			if last, err = s.sumVersions(ctx, k.summed, k.until); err != nil {
				return err
			}
		}
		fresh = last == k.sum
	}
	if !fresh {
		k = &known{from: begin, until: begin, built: now}
		k.finder = idle.New(s.config.Idle, func(r idle.Run) { k.runs = append(k.runs, r) })
		if err := addBefore(ctx, s.deps.DB, s.config.Idle, k.finder, begin); err != nil {
			return err
		}
	} else if k.until.Equal(until) {
		return nil
	}
	if err := addRuns(ctx, s.deps.DB, k.finder, heldHoursSQL, k.until, until); err != nil {
		return err
	}
	k.finder.Settle(until)
	k.until, k.summed, k.sum = until, summed, sum
	s.known = k
	return nil
}

// sumVersions tells whether any row of the hours in [from, to) was written since.
func (s *Service) sumVersions(ctx context.Context, from, to time.Time) (sum uint64, err error) {
	err = each(ctx, s.deps.DB, func(rows driver.Rows) error { return rows.Scan(&sum) }, versionsSQL, from, to)
	return sum, err
}

// readRuns returns the runs of idle time in [begin, end), each as a whole.
func readRuns(ctx context.Context, db DB, config idle.Config, newest map[string]time.Time, begin, end time.Time,
) (runs []idle.Run, err error) {
	finder := idle.New(config, func(r idle.Run) { runs = append(runs, r) })
	if err := addBefore(ctx, db, config, finder, begin); err != nil {
		return nil, err
	}
	if err := addRuns(ctx, db, finder, heldHoursSQL, begin, end); err != nil {
		return nil, err
	}
	return append(runs, finder.Unfinished(newest)...), nil
}

// longest is how far back an idle allocation is followed.
const longest = 5 * 366 * 24 * time.Hour

// addBefore adds to a finder the earlier hours of the GPUs that were idle across an instant: back to where their
// allocations began, so that one long allocation doesn't make a run read all GPUs over its whole length.
func addBefore(ctx context.Context, db DB, config idle.Config, finder *idle.Finder, begin time.Time) error {
	var all []string
	from, gpus := begin, []string(nil)
	err := each(ctx, db, func(rows driver.Rows) error {
		var gpu string
		defer func() { gpus = append(gpus, gpu) }()
		return rows.Scan(&gpu)
	}, idleAtSQL, begin)
	for err == nil && len(gpus) > 0 && begin.Sub(from) < longest {
		all = append(all, gpus...)
		earlier := from.Add(-idleReach)
		look := idle.New(config, func(idle.Run) {})
		if err = addRuns(ctx, db, look, heldHoursOfGPUsSQL, earlier, from, gpus); err != nil {
			break
		}
		still := map[string]bool{} // idle all the time
		for _, r := range look.Unfinished(nil) {
			still[r.GPU] = still[r.GPU] || r.From.Equal(earlier) && r.To.Equal(from)
		}
		gpus = slices.DeleteFunc(gpus, func(gpu string) bool { return !still[gpu] })
		from = earlier
	}
	if err != nil || len(all) == 0 {
		return err
	}
	slices.Sort(all)
	return addRuns(ctx, db, finder, heldHoursOfGPUsSQL, from, begin, slices.Compact(all))
}

// addRuns adds a query's rows to a finder.
func addRuns(ctx context.Context, db DB, finder *idle.Finder, sql string, args ...any) error {
	var row tables.UsageHour
	return each(ctx, db, func(rows driver.Rows) error {
		if err := rows.Scan(&row.Cluster, &row.GPU, &row.Hour, &row.Node, &row.Model, &row.GPUSlices, &row.UntilMS, &row.Leaf,
			&row.Profile, &row.ProfileSlices, &row.Tenant, &row.Project, &row.User, &row.Workload, &row.Active, &row.Idle, &row.Parked,
			&row.RestOwner, &row.RestFrom, &row.RestMS, &row.RestSliceMS, &row.RestGrade, &row.RestReleased); err != nil {
			return err
		}
		return addRow(finder, &row)
	}, sql, args...)
}

// addRow adds the lines of a GPU-hour, each to its series.
func addRow(finder *idle.Finder, row *tables.UsageHour) error {
	lines := map[idle.Series]int{}
	for i := range row.Tenant {
		s := idle.Series{
			Cluster: row.Cluster, GPU: row.GPU, Leaf: row.Leaf[i], Profile: row.Profile[i], Tenant: row.Tenant[i],
			Project: row.Project[i], Workload: row.Workload[i],
		}
		n := lines[s]
		lines[s]++
		s.Line = n
		h := idle.Hour{
			Start: row.Hour.UTC(), UntilMS: int64(row.UntilMS), Node: row.Node, User: row.User[i], Model: row.Model,
			Slices: row.GPUSlices, ProfileSlices: row.ProfileSlices[i], Active: row.Active[i], Idle: row.Idle[i],
		}
		if i < len(row.Parked) {
			h.Parked = row.Parked[i]
		}
		for k, owner := range row.RestOwner {
			if int(owner) == i {
				from := int64(row.RestFrom[k])
				h.Rest = append(h.Rest, meter.RestRun{
					FromMS: from, ToMS: from + int64(row.RestMS[k]), SliceMS: int64(row.RestSliceMS[k]),
					Grade: meter.RestGrade(row.RestGrade[k]), Released: row.RestReleased[k] != 0,
				})
			}
		}
		if err := finder.Add(s, &h); err != nil {
			return err
		}
	}
	return nil
}
