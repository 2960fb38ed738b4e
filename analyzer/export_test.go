package analyzer

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/analyzer/episode"
)

// Load returns the published episodes that overlap [from, to), sorted by start.
func Load(ctx context.Context, db DB, from, to time.Time) ([]episode.Episode, error) {
	stored, err := load(ctx, db, from, to)
	var list []episode.Episode
	for _, row := range stored {
		e := episode.Episode{
			Kind: episode.Kind(row.Kind), Cause: row.Cause, Grade: episode.Grade(row.Grade), Open: row.Open == 1, Cluster: row.Cluster,
			Tenant: row.Tenant, Project: row.Project, Workload: row.Workload, User: row.User, Node: row.Node, Start: row.Start, End: row.End,
			WastedGPUHours: decimal.RequireFromString(row.WastedGPUHours), WastedCost: decimal.RequireFromString(row.WastedCost),
			Currency: row.Currency, Evidence: row.Evidence,
		}
		for i := range row.GPUs {
			e.Leaves = append(e.Leaves, episode.Leaf{GPU: row.GPUs[i], Leaf: row.Leaves[i]})
		}
		list = append(list, e)
	}
	episode.Sort(list)
	return list, err
}
