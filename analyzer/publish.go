package analyzer

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
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
		row := rowOf(e, version)
		before, there := stored[row.ID]
		delete(stored, row.ID)
		if there && same(before, row) {
			done.Kept++
			continue
		}
		done.Written++
		rows = append(rows, row)
	}
	for _, row := range stored {
		done.Deleted++
		row.Version, row.Deleted = version, 1
		rows = append(rows, row)
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
func rowOf(e episode.Episode, version uint64) tables.Anomaly {
	var gpus, leaves []string
	for _, l := range e.Leaves {
		gpus, leaves = append(gpus, l.GPU), append(leaves, l.Leaf)
	}
	var open uint8
	if e.Open {
		open = 1
	}
	alerted := time.Unix(0, 0).UTC()
	if !e.Alerted.IsZero() {
		alerted = e.Alerted
	}
	return tables.Anomaly{
		ID: e.ID(), Kind: string(e.Kind), Cluster: e.Cluster, Tenant: e.Tenant, Project: e.Project, Workload: e.Workload,
		User: e.User, Node: e.Node, GPU: e.At().GPU, Leaf: e.At().Leaf, GPUs: gpus, Leaves: leaves, Cause: e.Cause,
		Grade: string(e.Grade), Open: open, Start: e.Start.Truncate(time.Second), End: e.End.Truncate(time.Second),
		WastedGPUHours: e.WastedGPUHours.Truncate(9).String(), WastedCost: e.WastedCost.Truncate(9).String(),
		Currency: e.Currency, Evidence: e.Evidence, Severity: e.Severity.String(), Alerted: alerted, Parent: e.Parent, Observed: e.Observed, Expected: e.Expected, Score: e.Score, Facts: facts(e), Version: version,
	}
}

// facts are the episode's as JSON, bounded.
func facts(e episode.Episode) string {
	f := e.Facts
	f.Bound()
	text, err := json.Marshal(f)
	if err != nil {
		return "{}" // a number that is no JSON: the columns have the figures
	}
	return string(text)
}

// load returns the published episodes that overlap [from, to), by id.
func load(ctx context.Context, db DB, from, to time.Time) (map[string]tables.Anomaly, error) {
	stored := map[string]tables.Anomaly{}
	err := each(ctx, db, func(rows driver.Rows) error {
		var row tables.Anomaly
		if err := rows.ScanStruct(&row); err != nil {
			return err
		}
		row.Start, row.End, row.Alerted = row.Start.UTC(), row.End.UTC(), row.Alerted.UTC()
		stored[row.ID] = row
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

// same compares all but the version. The engine returns no array for an empty one.
func same(stored, found tables.Anomaly) bool {
	stored.Version, found.Version = 0, 0
	if len(stored.GPUs)+len(found.GPUs) == 0 {
		stored.GPUs, stored.Leaves, found.GPUs, found.Leaves = nil, nil, nil, nil
	}
	return reflect.DeepEqual(stored, found)
}
