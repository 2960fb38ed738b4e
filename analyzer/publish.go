package analyzer

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/tables"
)

// Published counts the changes made by Publish.
type Published struct {
	Written int // new or changed episodes
	Deleted int // episodes marked as no longer found
	Kept    int // episodes that are stored already, unchanged
}

// Publish replaces the content of table anomalies for the range [from, to) by
// episodes, which must be all that Find returned for the range. Rows of the range
// without an episode get deleted = 1. Unchanged rows are not written again, so a run
// without changes writes nothing.
func Publish(ctx context.Context, db DB, now, from, to time.Time, episodes []episode.Episode) (Published, error) {
	stored, err := load(ctx, db, from, to)
	if err != nil {
		return Published{}, fmt.Errorf("read published episodes: %w", err)
	}
	version, err := nextVersion(ctx, db, now)
	if err != nil {
		return Published{}, fmt.Errorf("read newest version: %w", err)
	}
	var done Published
	var rows []tables.Anomaly
	for _, e := range episodes {
		before, there := stored[e.ID()]
		delete(stored, e.ID())
		if there && same(before, e) {
			done.Kept++
			continue
		}
		done.Written++
		rows = append(rows, rowOf(e.ID(), e, version, 0))
	}
	for id, e := range stored {
		done.Deleted++
		rows = append(rows, rowOf(id, e, version, 1))
	}
	if done.Written+done.Deleted == 0 {
		return done, nil
	}
	if err := tables.Insert(ctx, db, "anomalies", rows...); err != nil {
		return Published{}, fmt.Errorf("write %d episodes: %w", done.Written+done.Deleted, err)
	}
	return done, nil
}

// rowOf is an episode's row of table anomalies.
func rowOf(id string, e episode.Episode, version uint64, deleted uint8) tables.Anomaly {
	return tables.Anomaly{
		ID: id, Kind: string(e.Kind), Cluster: e.Cluster, Tenant: e.Tenant, Project: e.Project, Workload: e.Workload,
		Node: e.Node, GPU: e.GPU, Leaf: e.Leaf, Start: e.Start, End: e.End,
		WastedGPUHours: e.WastedGPUHours.Truncate(9).String(), WastedCost: e.WastedCost.Truncate(9).String(),
		Currency: e.Currency, Evidence: e.Evidence, Version: version, Deleted: deleted,
	}
}

// load returns the published episodes that overlap [from, to), by id.
func load(ctx context.Context, db DB, from, to time.Time) (map[string]episode.Episode, error) {
	stored := map[string]episode.Episode{}
	err := each(ctx, db, func(rows driver.Rows) error {
		var id, kind string
		var version uint64
		var e episode.Episode
		if err := rows.Scan(&id, &kind, &e.Cluster, &e.Tenant, &e.Project, &e.Workload, &e.Node, &e.GPU, &e.Leaf,
			&e.Start, &e.End, &e.WastedGPUHours, &e.WastedCost, &e.Currency, &e.Evidence, &version); err != nil {
			return err
		}
		e.Kind, e.Start, e.End = episode.Kind(kind), e.Start.UTC(), e.End.UTC()
		stored[id] = e
		return nil
	}, publishedSQL, to.UTC(), from.UTC())
	return stored, err
}

// nextVersion is the run's instant in Unix ms, or one more than what is there:
// a clock that stepped back must not make a run lose.
func nextVersion(ctx context.Context, db DB, now time.Time) (uint64, error) {
	var newest uint64
	err := each(ctx, db, func(rows driver.Rows) error { return rows.Scan(&newest) }, newestVersionSQL)
	return max(uint64(max(now.UnixMilli(), 0)), newest+1), err
}

// same compares what the table keeps of an episode with equal id.
func same(stored, found episode.Episode) bool {
	return stored.End.Equal(found.End) && stored.Node == found.Node && stored.Currency == found.Currency &&
		stored.Evidence == found.Evidence &&
		stored.WastedGPUHours.Equal(found.WastedGPUHours) && stored.WastedCost.Equal(found.WastedCost)
}
