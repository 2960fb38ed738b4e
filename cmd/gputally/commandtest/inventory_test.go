package commandtest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/storetest"
)

// TestInventoryListsAndRetires: a GPU that has gone silent is taken out, and
// no other one.
func TestInventoryListsAndRetires(t *testing.T) {
	storetest.Library(t)
	data := filepath.Join(t.TempDir(), "data")
	a := programtest.OpenNew(t, data)
	for _, sql := range []string{
		`INSERT INTO clusters (cluster, slot_ms, since) VALUES ('c', 10000, '2026-03-02 00:00:00')`,
		`INSERT INTO batches (topic, partition, offset, status, cluster, node, slot, slot_ms, observed_ms, enumeration_complete, attribution_ok, batch)
		 SELECT 't', 0, number, 'stored', 'c', 'n1', toDateTime('2026-03-02 00:00:00', 'UTC') + 10 * number, 10000, 10000, 1, 1, number + 1 FROM numbers(720)`,
		`INSERT INTO sightings (cluster, hour, gpu, node, model, first_ms, last_ms, run_from_ms, slices_first, slices_last, version)
		 VALUES ('c', '2026-03-01 23:00:00', 'GPU-1', 'n1', 'NVIDIA A30', 1772406000000, 1772409600000, 1772406000000, 4, 4, 1)`,
	} {
		if err := a.DB.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	list := func(state, closes, who, reason string) {
		t.Helper()
		got := programtest.Invoke(t, "inventory", "list", "--data", data, "-o", "csv")
		want := programtest.Came(cli.ExitOK,
			"cluster,gpu,node,model,slices,state,first_listed,last_listed,closes,retired_by,reason\n"+
				"c,GPU-1,n1,NVIDIA A30,4,"+state+",2026-03-01T23:00:00Z,2026-03-02T00:00:00Z,"+closes+","+who+","+reason+"\n", "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("inventory (-want +got):\n%s", diff)
		}
	}
	list("present", "2026-03-03T00:00:00Z", "", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"GPU-1"}, "--at TIME and --reason TEXT are needed"},
		{[]string{"GPU-2", "--at", "2026-03-02", "--reason", "x"}, `GPU "GPU-2": the inventory has no such GPU (it lists 1 GPU)`},
		{[]string{"GPU-1", "--at", "2026-03-01", "--reason", "x"}, "until 2026-03-02T00:00:00Z"},
	} {
		got := programtest.Invoke(t, append([]string{"inventory", "retire", "--data", data}, c.args...)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("retire %v: got %+v, want exit %d and %q", c.args, got, cli.ExitUsage, c.want)
		}
	}
	got := programtest.Invoke(t, "inventory", "retire", "GPU-1", "--at", "2026-03-02T00:30:05Z", "--reason", "swapped",
		"--by", "ops", "--data", data)
	if want := "GPU GPU-1 is retired from 2026-03-02T00:30:00Z on; "; got.Code != cli.ExitOK || !strings.HasPrefix(
		got.Stdout, want) {
		t.Errorf("retire: got %+v, want %q", got, want)
	}
	list("retired", "2026-03-02T00:30:00Z", "ops", "swapped")
}
