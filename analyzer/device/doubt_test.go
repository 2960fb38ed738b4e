package device

import (
	"slices"
	"testing"

	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/meter"
)

// TestEveryReasonHasAKindAndAnID: of one node and time, all findings differ, and all but work without an owner cost
// nothing.
func TestEveryReasonHasAKindAndAnID(t *testing.T) {
	var rows []Doubt
	for _, why := range Reasons() {
		rows = append(rows, Doubt{
			Cluster: "c", Node: "n", Why: meter.Why(why), From: hour(1), To: hour(41), GPUs: []string{"A", "B"}, Model: "H100",
			LeafMS: 20 * 3_600_000, GPUMilliMS: 20 * 3_600_000 * 1000,
		})
	}
	ids := map[string]bool{}
	for _, e := range Doubts(rows, Newest{"c": hour(40)}, flatRate{}) {
		e.Rate(episode.DefaultLimits(), 0, e.Known)
		want, severity := 0., episode.Info
		if e.Kind == episode.WorkWithoutOwner {
			want, severity = 120, episode.Medium
		}
		if e.Observed != want || e.Severity != severity || e.Grade != episode.None || e.Tenant != "" || len(e.Leaves) != 2 {
			t.Errorf("%+v: want %g GPU-hours lost, severity %s, open, no tenant, two GPUs", e, want, severity)
		}
		if !e.Open || !e.End.Equal(hour(41)) {
			t.Errorf("end %s, open %v; want the newest hour's end, open", e.End, e.Open)
		}
		if !slices.Contains(episode.Kinds(), e.Kind) {
			t.Errorf("kind %q is not listed", e.Kind)
		}
		ids[e.ID()] = true
	}
	if len(ids) != len(rows) {
		t.Errorf("%d ids of %d findings", len(ids), len(rows))
	}
}
