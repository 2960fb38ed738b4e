package commandtest

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
)

// TestNobodyIsAccusedWithoutProof: ten hours of eight holds on H100s, with what each reads. Only two signals that are
// quiet accuse a tenant; one alone is a suspicion without a cost; none, or a contradiction, is nothing.
func TestNobodyIsAccusedWithoutProof(t *testing.T) {
	type reading struct {
		pod            string
		sm, util, watt float64 // negative: absent
	}
	readings := []reading{
		{"rests", 0, 0, 66},
		{"parked", 0, 0, 112},
		{"no-power", 0, 0, -1},
		{"sm-and-power", 0, -1, 66},
		{"util-alone", -1, 0, -1},
		{"sm-alone", 0, -1, -1},
		{"nothing", -1, -1, -1},
		{"hot", 0, 0, 400},
		{"sm-works", 0.6, 0, 66},
		{"util-works-without-sm", -1, 70, 66},
	}
	var lines []string
	for minute := range 600 {
		var gpus []programtest.Object
		for _, r := range readings {
			leaf := programtest.Object{"id": "gpu", "slices": 7}
			board := programtest.Object{
				"uuid": "GPU-" + r.pod, "model": "NVIDIA H100 80GB HBM3", "slices": 7, "idle_watts": 80,
				"leaves": []programtest.Object{leaf},
				"holds":  []programtest.Object{{"leaf": "gpu", "owner": programtest.Object{"namespace": "ml", "pod": r.pod}}},
			}
			if r.sm >= 0 {
				leaf["sm_active"] = r.sm
			}
			if r.util >= 0 {
				leaf["gpu_util"] = r.util
			}
			if r.watt >= 0 {
				board["power_watts"] = r.watt
			}
			gpus = append(gpus, board)
		}
		line, err := json.Marshal(programtest.Object{
			"cluster": "c", "node": "n", "slot": programtest.FleetStart.Add(time.Duration(minute) * time.Minute), "slot_ms": 60_000,
			"collector": "c1", "boot_ms": 1000, "seq": minute, "gpus": gpus,
		})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	file, data := filepath.Join(t.TempDir(), "batches.jsonl"), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	programtest.MustInvoke(t, "import", "batches", file, "--data", data)
	text := programtest.MustInvoke(t, "anomalies", "--data", data, "--output", "csv")
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range records[0] {
		column[name] = i
	}
	got := map[string]string{}
	for _, r := range records[1:] {
		if r[column["tenant"]] == "" { // of telemetry: the platform's
			text := programtest.MustInvoke(t, "anomalies", "explain", r[column["id"]], "--data", data)
			if !strings.Contains(text, "node n") || !strings.Contains(text, "Grade: none") || strings.Contains(text, "USD") {
				t.Errorf("explain of kind %s: want its node, grade none and no cost:\n%s", r[column["kind"]], text)
			}
			continue
		}
		got[r[column["workload"]]] = strings.Join([]string{
			r[column["grade"]], r[column["cause"]], r[column["wasted_gpu_hours"]], r[column["wasted_cost"]],
		}, " ")
	}
	want := map[string]string{
		"rests": "proven never_started 10 24.9", "parked": "proven parked 10 24.9",
		"no-power": "proven never_started 10 24.9", "sm-and-power": "proven never_started 10 24.9",
		"util-alone": "suspected never_started 10 0", "sm-alone": "suspected never_started 10 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
