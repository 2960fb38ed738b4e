package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// TestH5OverTheLimitsIsADeadLetter, counted by its reason, and the rest goes on:
// nothing of a batch that contradicts hardware, costs too much or is of 1970 is
// stored.
func TestH5OverTheLimitsIsADeadLetter(t *testing.T) {
	p := newPipeline(t)
	crowd := func(boards, holders int) func(*wire.Batch) {
		return func(b *wire.Batch) {
			b.Gpus = nil
			for i := range boards {
				g := &wire.Gpu{Uuid: fmt.Sprint("GPU-", i), Slices: 1, Leaves: []*wire.Leaf{{Id: "gpu"}}}
				for j := range holders {
					g.Holds = append(g.Holds, &wire.Hold{Leaf: "gpu", Owner: &wire.Owner{Namespace: fmt.Sprint("n", j)}})
				}
				b.Gpus = append(b.Gpus, g)
			}
		}
	}
	held := map[string]string{"G": "a"}
	p.topic.append(
		hourly(t, "n", 0, held, nil),
		hourly(t, "n", 1, held, crowd(1, 1000)),
		hourly(t, "n", 1, held, crowd(100, 128)),
		hourly(t, "n", 1, held, crowd(wire.MaxGPUs+1, 0)),
		hourly(t, "n", 1, held, func(b *wire.Batch) { b.SlotStartMs = 0 }),
		hourly(t, "n", 1, held, func(b *wire.Batch) { b.Node = "n\u200b" }),
		hourly(t, "n", 1, held, nil),
	)
	r := p.start(t, ingest.DefaultConfig(), p.db, clock.Real())
	r.read(t)
	want := []string{
		"0 stored ", "1 dead limits", "2 dead too_costly", "3 dead limits", "4 dead limits", "5 dead limits",
		"6 stored ",
	}
	if diff := cmp.Diff(want, p.journal(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	counted := `
# HELP gputally_ingest_dead_letters_total Messages dead-lettered, by reason.
# TYPE gputally_ingest_dead_letters_total counter
gputally_ingest_dead_letters_total{reason="limits"} 4
gputally_ingest_dead_letters_total{reason="too_costly"} 1
`
	if err := testutil.GatherAndCompare(r.reg, strings.NewReader(counted),
		"gputally_ingest_dead_letters_total"); err != nil {
		t.Error(err)
	}
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"01T00 a": 25_200_000, "01T01 a": 25_200_000}, p.active(t, "G")); diff != "" {
		t.Errorf("active time (-want +got):\n%s", diff)
	}
}

// TestM13ImplausibleEnergyIsNobodys: it is left out of rows, journal and usage
// alike and is a finding, and the energy that was read stays; C3 and C9 hold.
func TestM13ImplausibleEnergyIsNobodys(t *testing.T) {
	p := newPipeline(t)
	const mostMJ = 3000 * 3_600_000
	told := func(hour int, mj int64) []byte {
		return hourly(t, "n", hour, map[string]string{"G": "a"}, func(b *wire.Batch) {
			b.Gpus[0].EnergyMj, b.Gpus[0].PowerWatts = proto.Int64(mj), proto.Float64(1e6)
		})
	}
	p.topic.append(told(0, 1e15), told(1, mostMJ), told(2, 1<<62))
	r := p.start(t, ingest.DefaultConfig(), p.db, clock.Real())
	r.read(t)
	if _, err := p.ledger.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	var energy int64
	for _, v := range p.usage(t) {
		energy += v[7]
	}
	if energy != mostMJ {
		t.Errorf("usage has %d mJ, want %d", energy, int64(mostMJ))
	}
	counted := `
# HELP gputally_ingest_findings_total Contradictions inside batches.
# TYPE gputally_ingest_findings_total counter
gputally_ingest_findings_total 2
`
	if err := testutil.GatherAndCompare(r.reg, strings.NewReader(counted), "gputally_ingest_findings_total"); err != nil {
		t.Error(err)
	}
	for _, c := range p.ledger.Checks() {
		if res, err := c.Run(t.Context()); err != nil || !res.OK {
			t.Errorf("%s: %v, %v", c.Name(), res.Findings, err)
		}
	}
	var rows []struct {
		Told  int64  `ch:"told"`
		Wrong uint64 `ch:"wrong"`
		Power uint64 `ch:"power"`
	}
	const sql = `SELECT sum(energy_mj) AS told, (SELECT countIf(bitTest(present, 6)) FROM samples FINAL) AS wrong,
		(SELECT countIf(bitTest(present, 5)) FROM samples FINAL) AS power FROM batches FINAL`
	if err := p.db.Select(t.Context(), &rows, sql); err != nil {
		t.Fatal(err)
	}
	if rows[0].Told != mostMJ || rows[0].Wrong != 1 || rows[0].Power != 0 {
		t.Errorf("journal has %d mJ, samples have %d readings of energy and %d of power; want %d, 1 and 0", rows[0].Told,
			rows[0].Wrong, rows[0].Power, int64(mostMJ))
	}
}

// TestM12TenantsHaveNamesThatCanBeBilled whatever collectors or mappings say, one
// for each that differs.
func TestM12TenantsHaveNamesThatCanBeBilled(t *testing.T) {
	p := newPipeline(t)
	long := strings.Repeat("x", 600)
	hostile := []string{long, long + "y", "a\x00", "\u202etxt.exe", "visi\u200bon", "vision", "fi\u0301sico", "físico"}
	for hour, name := range hostile {
		p.topic.append(hourly(t, "n", hour, map[string]string{"G": name}, nil))
	}
	p.drain(t)
	want := map[string]int64{}
	for hour, name := range hostile {
		want[fmt.Sprintf("01T%02d %s", hour, wire.Name(name))] = 25_200_000
	}
	if diff := cmp.Diff(want, p.active(t, "G")); diff != "" {
		t.Errorf("active time (-want +got):\n%s", diff)
	}
	p.remap(t, "versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: {namespace: vision}, tenant: "+
		"\"blind\\u200b\"}\n")
	p.drain(t)
	if got := p.active(t, "G")["01T05 "+wire.Name("blind\u200b")]; got != 25_200_000 {
		t.Errorf("a tenant that the mapping names has %d slice-ms: %v", got, p.active(t, "G"))
	}
}
