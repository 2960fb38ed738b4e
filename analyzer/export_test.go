package analyzer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gputally/gputally/analyzer/episode"
)

// Load returns the published episodes that overlap [from, to), sorted by start.
func Load(ctx context.Context, db DB, from, to time.Time) ([]episode.Episode, error) {
	stored, err := load(ctx, db, from, to)
	list := slices.Collect(maps.Values(stored))
	episode.Sort(list)
	return list, err
}
