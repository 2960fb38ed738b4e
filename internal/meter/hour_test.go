package meter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
)

const hourStart = int64(fillFrom)

// oneSlot is a record of GPU-a in the slot so many seconds after hourStart, with a row
// of free time.
func oneSlot(seconds int64, slices int, kind meter.Kind, model string) meter.Record {
	free := meter.Row{Bucket: meter.Free, Why: meter.WhyNotHeld, SliceMS: int64(slices) * 10_000}
	return meter.Record{StartMS: hourStart + seconds*1000, Slices: slices, Kind: kind, Model: model, Rows: []meter.Row{free}}
}

// oneHour is the hour after hourStart, read to its end, of what nodes say of GPU-a.
func oneHour(start int64, nodes map[string][]meter.Record) meter.HourInput {
	in := meter.HourInput{
		StartMS: start, WatermarkMS: start + meter.HourMS, SlotMS: 10_000, Nodes: map[string][]meter.NodeSlot{},
		GPUs:       map[string]map[string][]meter.Record{"GPU-a": nodes},
		LeafSlices: func(uint64) int { return 1 }, OwnerID: func(uint64) string { return "" },
	}
	for node, records := range nodes {
		for _, r := range records {
			in.Nodes[node] = append(in.Nodes[node], meter.NodeSlot{StartMS: r.StartMS, AttributionOK: true})
		}
	}
	return in
}

func mustHour(t *testing.T, in meter.HourInput, inv *meter.Inventory) meter.HourResult {
	t.Helper()
	res, err := meter.Hour(in, inv)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// An hour's row says where the GPU is and what it is; its sightings say from when to
// when which node listed it, and with what.
func TestAnHourTellsWhereAGPUIs(t *testing.T) {
	inv := meter.NewInventory(nil)
	first := mustHour(t, oneHour(hourStart, map[string][]meter.Record{
		"n1": {oneSlot(0, 4, meter.Board, "H100"), oneSlot(10, 4, meter.Board, ""), oneSlot(30, 4, meter.Board, "H100")},
	}), inv)
	want := []meter.GPUHour{{
		GPU: "GPU-a", Node: "n1", Model: "H100", Slices: 4, PresentMS: meter.HourMS, Free: 3 * 40_000, Unobserved: 4*meter.HourMS - 3*40_000,
	}}
	if diff := cmp.Diff(want, first.GPUs); diff != "" {
		t.Errorf("first hour (-want +got):\n%s", diff)
	}
	sightings := []meter.Sighting{{
		HourMS: hourStart, GPU: "GPU-a", Node: "n1", Model: "H100", FirstMS: hourStart, LastMS: hourStart + 40_000, RunFromMS: hourStart + 30_000,
		SlicesFirst: 4, SlicesLast: 4,
	}}
	if diff := cmp.Diff(sightings, first.Sightings); diff != "" || first.UntilMS != meter.HourMS || len(first.Findings) > 0 {
		t.Errorf("first hour until %d, findings %q, sightings (-want +got):\n%s", first.UntilMS, first.Findings, diff)
	}
	// Nothing is heard of it in the second hour, and a record without figures comes in the third.
	second := mustHour(t, oneHour(hourStart+meter.HourMS, nil), inv)
	want[0].Free, want[0].Unobserved = 0, 4*meter.HourMS
	if diff := cmp.Diff(want, second.GPUs); diff != "" || len(second.Sightings) > 0 {
		t.Errorf("second hour, %d sightings (-want +got):\n%s", len(second.Sightings), diff)
	}
	third := mustHour(t, oneHour(hourStart+2*meter.HourMS, map[string][]meter.Record{"n1": {oneSlot(7200, 0, meter.Board, "")}}), inv)
	want[0].Stranded, want[0].Unobserved = 40_000, 4*meter.HourMS-40_000
	if diff := cmp.Diff(want, third.GPUs); diff != "" {
		t.Errorf("third hour (-want +got):\n%s", diff)
	}
	at := hourStart + 2*meter.HourMS
	sightings = []meter.Sighting{{
		HourMS: at, GPU: "GPU-a", Node: "n1", Model: "H100", FirstMS: at, LastMS: at + 10_000, RunFromMS: at, SlicesFirst: 4, SlicesLast: 4,
	}}
	if diff := cmp.Diff(sightings, third.Sightings); diff != "" {
		t.Errorf("third hour, sightings (-want +got):\n%s", diff)
	}
	// The last record with slices counts.
	fourth := mustHour(t, oneHour(hourStart, map[string][]meter.Record{
		"n1": {oneSlot(0, 4, meter.Board, ""), oneSlot(10, 3, meter.Board, ""), oneSlot(20, 0, meter.Board, "")},
	}), meter.NewInventory(nil))
	if s := fourth.Sightings[0]; s.SlicesFirst != 4 || s.SlicesLast != 3 {
		t.Errorf("fourth hour: %d slices first and %d last, want 4 and 3", s.SlicesFirst, s.SlicesLast)
	}
	// So far as the hour is read.
	part := oneHour(hourStart+3*meter.HourMS, nil)
	part.WatermarkMS = part.StartMS + 5
	if res := mustHour(t, part, inv); res.UntilMS != 5 || res.GPUs[0].PresentMS != 5 || res.GPUs[0].Unobserved != 20 {
		t.Errorf("an hour of which 5 ms are read: %+v", res)
	}
	part.WatermarkMS = part.StartMS - 5
	if res := mustHour(t, part, inv); res.UntilMS != 0 || len(res.GPUs) > 0 {
		t.Errorf("an hour of which nothing is read: %+v", res)
	}
}

// The capacity is that of the hour's first record with figures.
func TestCapacityOfAnHour(t *testing.T) {
	for name, c := range map[string]struct {
		records  []meter.Record
		slices   int
		free     int64 // that is counted
		stranded int64
		findings int
	}{
		"figures come later":            {[]meter.Record{oneSlot(0, 0, meter.Board, ""), oneSlot(10, 4, meter.Board, "")}, 4, 40_000, 40_000, 0},
		"a record without figures":      {[]meter.Record{oneSlot(0, 4, meter.Board, ""), oneSlot(10, 0, meter.Pool, "")}, 4, 40_000, 40_000, 0},
		"more than the hour began with": {[]meter.Record{oneSlot(0, 4, meter.Board, ""), oneSlot(10, 5, meter.Board, "")}, 4, 40_000, 0, 1},
		"fewer":                         {[]meter.Record{oneSlot(0, 4, meter.Board, ""), oneSlot(10, 3, meter.Board, "")}, 4, 70_000, 10_000, 0},
		"of another kind":               {[]meter.Record{oneSlot(0, 4, meter.Board, ""), oneSlot(10, 4, meter.Pool, "")}, 4, 40_000, 0, 1},
		"no figures at all":             {[]meter.Record{oneSlot(0, 0, meter.Board, "")}, 1, 0, 10_000, 0},
	} {
		res := mustHour(t, oneHour(hourStart, map[string][]meter.Record{"n": c.records}), meter.NewInventory(nil))
		g := res.GPUs[0]
		if g.Slices != c.slices || g.Free != c.free || g.Stranded != c.stranded || len(res.Findings) != c.findings {
			t.Errorf("%s: %d slices, %d free, %d stranded, findings %q; want %d, %d, %d, %d", name, g.Slices, g.Free, g.Stranded, res.Findings, c.slices, c.free, c.stranded, c.findings)
		}
	}
}

// A GPU that is on two nodes within an hour is told of once, by name.
func TestContestedGPUsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		nodes map[string][]meter.Record
		then  int64 // seconds after hourStart at which n2 lists it
		want  []string
	}{
		"at once":            {map[string][]meter.Record{"n1": {oneSlot(0, 4, meter.Board, ""), oneSlot(10, 4, meter.Board, "")}, "n2": {oneSlot(0, 4, meter.Board, ""), oneSlot(10, 4, meter.Board, "")}}, 0, []string{"GPU-a", "n1", "n2"}},
		"within an hour":     {map[string][]meter.Record{"n1": {oneSlot(0, 4, meter.Board, "")}}, 3600, []string{"GPU-a", "n1", "n2"}},
		"an hour later":      {map[string][]meter.Record{"n1": {oneSlot(0, 4, meter.Board, "")}}, 3610, nil},
		"on the same node":   {map[string][]meter.Record{"n2": {oneSlot(0, 4, meter.Board, "")}}, 3600, nil},
		"for the first time": {nil, 3600, nil},
	} {
		inv := meter.NewInventory(nil)
		res := mustHour(t, oneHour(hourStart, c.nodes), inv)
		if c.then > 0 {
			res = mustHour(t, oneHour(hourStart+meter.HourMS, map[string][]meter.Record{"n2": {oneSlot(c.then, 4, meter.Board, "")}}), inv)
		}
		if len(res.Findings) != min(len(c.want), 1) {
			t.Errorf("%s: findings %q", name, res.Findings)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(res.Findings[0], part) {
				t.Errorf("%s: finding %q lacks %s", name, res.Findings[0], part)
			}
		}
	}
}
