package imports_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest/imports"
	"github.com/gputally/gputally/internal/wire"
)

const head = `{"cluster":"k","node":"n","slot":"2026-03-01T00:00:%s0Z","slot_ms":%s,"collector":"c","boot_ms":1,"seq":0,"gpus":[%s]}`

func line(tens, slotMS, gpus string) string {
	return strings.NewReplacer("%s0Z", tens+"0Z", `"slot_ms":%s`, `"slot_ms":`+slotMS, `[%s]`, "["+gpus+"]").Replace(head)
}

func TestReadListsBadLinesAndTakesTheGood(t *testing.T) {
	file := strings.Join([]string{
		line("2", "10000", ""),
		`{"cluster":`,
		line("0", "10000", ""),
		line("0", "20000", ""),
		line("1", "10000", `{"uuid":"g","energy_mj":-1}`),
		"",
		line("1", "10000", `{"uuid":"g","holds":[{"leaf":"x","owner":{"pod":"p"}}]}`),
	}, "\n")
	got, err := imports.Read(strings.NewReader(file), nil, imports.Horizon{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, b := range got.Bad {
		lines = append(lines, b.Line)
	}
	if diff := cmp.Diff([]int{2, 4, 5, 7}, lines); diff != "" {
		t.Errorf("bad lines (-want +got):\n%s\n%v", diff, got.Bad)
	}
	for i, want := range []string{"not a JSON object", "slot_ms 20000", "energy_mj -1", `leaf "x"`} {
		if !strings.Contains(got.Bad[i].Reason, want) {
			t.Errorf("bad line %d: %q does not name %q", got.Bad[i].Line, got.Bad[i].Reason, want)
		}
	}
	var starts []int64
	for _, data := range got.Encoded {
		b, _, err := wire.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		starts = append(starts, b.SlotStartMs-b.WindowFromMs)
		if b.WindowToMs-b.WindowFromMs != 30_000 || b.ClusterSlotMs != 10_000 || b.Origin != wire.Origin_ORIGIN_IMPORT {
			t.Errorf("batch declares window %d ms, slot %d ms, origin %s", b.WindowToMs-b.WindowFromMs,
				b.ClusterSlotMs, b.Origin)
		}
	}
	if diff := cmp.Diff([]int64{0, 20_000}, starts); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
}

func TestReadKeepsToAClustersSlotLength(t *testing.T) {
	got, err := imports.Read(strings.NewReader(line("0", "10000", "")), map[string]int64{"k": 60_000}, imports.Horizon{})
	if err != nil || len(got.Encoded) != 0 || len(got.Bad) != 1 || !strings.Contains(got.Bad[0].Reason,
		"must be 60000") {
		t.Errorf("got %+v, %v; want the line refused for its slot length", got, err)
	}
}
