package programtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/wire"
)

// FleetStart is the beginning of the fleet's three hours.
var FleetStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const (
	// FleetHours is how long the fleet runs.
	FleetHours  = 3
	fleetSlotMS = 60_000
	// TamperedAt is a slot in the middle of the fleet's second hour.
	TamperedAt = "2026-03-01 01:30:00"
)

// Object is a JSON object as the import reads it.
type Object map[string]any

// FleetLines are batches of two nodes with two H100s each, in slots of a minute.
// GPU-n1-0 and GPU-n2-0 are held whole, active in even minutes and idle in odd ones;
// GPU-n1-1 and GPU-n2-1 have two MIG instances, one held and one free.
func FleetLines(t *testing.T) (lines []string) {
	t.Helper()
	for minute := range FleetHours * 60 {
		for i, node := range []string{"n1", "n2"} {
			busy := float64(1-minute%2) * 0.8
			board := Object{
				"uuid": "GPU-" + node + "-0", "model": "NVIDIA H100 80GB HBM3", "slices": 7,
				"energy_mj": 18_000_000 + minute, "idle_watts": 80,
				"leaves": []Object{{"id": "gpu", "slices": 7, "sm_active": busy, "gpu_util": busy * 100}},
				"holds":  []Object{{"leaf": "gpu", "owner": Object{"namespace": "team-a", "pod": "train"}}},
			}
			cut := Object{
				"uuid": "GPU-" + node + "-1", "model": "NVIDIA H100 80GB HBM3", "slices": 7, "mig": true,
				"energy_mj": 9_000_000 + minute, "idle_watts": 80,
				"leaves": []Object{
					{"id": "gi1", "gi": 1, "profile": "3g.40gb", "slices": 3, "gr_engine_active": busy},
					{"id": "gi2", "gi": 2, "profile": "2g.20gb", "slices": 2, "gr_engine_active": 0},
				},
				"holds": []Object{{"leaf": "gi1", "owner": Object{"namespace": "team-b", "pod": "serve"}}},
			}
			line, err := json.Marshal(Object{
				"cluster": "fleet", "node": node, "slot": FleetStart.Add(time.Duration(minute) * time.Minute),
				"slot_ms":   fleetSlotMS,
				"collector": fmt.Sprintf("c%d", i+1), "boot_ms": 1000, "seq": minute, "gpus": []Object{board, cut},
			})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
	}
	return lines
}

// FleetLinesUnheld are minutes [from, to) of some nodes of the fleet again, by a later boot that saw nobody hold their
// first GPU.
func FleetLinesUnheld(t *testing.T, boot, from, to int, nodes ...string) (lines []string) {
	t.Helper()
	for _, line := range FleetLines(t) {
		var batch Object
		if err := json.Unmarshal([]byte(line), &batch); err != nil {
			t.Fatal(err)
		}
		minute := int(batch["seq"].(float64))
		if !slices.Contains(nodes, batch["node"].(string)) || minute < from || minute >= to {
			continue
		}
		batch["boot_ms"], batch["seq"] = boot, minute-from
		delete(batch["gpus"].([]any)[0].(map[string]any), "holds")
		changed, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(changed))
	}
	return lines
}

// NewFleet returns a data directory whose ledger has FleetLines: a copy of one that
// is made once.
func NewFleet(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	return prepared(t, "fleet", func(data string) { MustImport(t, data, WriteLines(t, FleetLines(t))) })
}

// BootOf returns n batches, with running counters, of a boot of a collector from a
// slot on.
func BootOf(bootMS int64, n int, change func(i int, b *wire.Batch)) (batches []*wire.Batch) {
	start := FleetStart.UnixMilli() + (bootMS-1000)*fleetSlotMS
	for i := range n {
		b := &wire.Batch{
			Cluster: "counted", Node: "n9", SlotStartMs: start + int64(i)*fleetSlotMS, SlotMs: fleetSlotMS,
			Collector: "c9", BootMs: bootMS, Seq: uint64(i), Origin: wire.Origin_ORIGIN_SIMULATED,
			WindowFromMs: FleetStart.UnixMilli(), WindowToMs: FleetStart.Add(24 * time.Hour).UnixMilli(),
			Counters: &wire.Counters{Sampled: uint64(i + 1), Spooled: uint64(i + 1)},
			Gpus:     []*wire.Gpu{{Uuid: "GPU-n9", Model: "Tesla T4", Slices: 1, Leaves: []*wire.Leaf{{Id: "gpu", Slices: 1}}}},
		}
		if i == 0 && bootMS > 1000 {
			b.Predecessor = &wire.Predecessor{BootMs: bootMS - 100, LastSeq: 4}
		}
		if change != nil {
			change(i, b)
		}
		batches = append(batches, b)
	}
	return batches
}
