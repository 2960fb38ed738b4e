package commandtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/programtest"
)

// TestIdlePowerIsProposedFromFreeGPUs: of a model with free GPUs that draw 33 or 34 W; not of one whose power at work is
// hardly more, of one with a single free GPU, of one whose idle power is known. Power of GPUs that work without a
// holder doesn't count.
func TestIdlePowerIsProposedFromFreeGPUs(t *testing.T) {
	board := func(uuid, model string, watts, active float64, held bool, known float64) programtest.Object {
		b := programtest.Object{
			"uuid": uuid, "model": model, "slices": 1, "power_watts": watts,
			"leaves": []programtest.Object{{"id": "gpu", "slices": 1, "sm_active": active, "gpu_util": active * 100}},
		}
		if held {
			b["holds"] = []programtest.Object{{"leaf": "gpu", "owner": programtest.Object{"namespace": "a", "pod": "p"}}}
		}
		if known > 0 {
			b["idle_watts"] = known
		}
		return b
	}
	var lines []string
	for minute := range 200 {
		watts := 33 + float64(minute%2)
		line, err := json.Marshal(programtest.Object{
			"cluster": "c", "node": "n", "slot": programtest.FleetStart.Add(time.Duration(minute) * time.Minute), "slot_ms": 60_000,
			"collector": "c1", "boot_ms": 1000, "seq": minute, "gpus": []programtest.Object{
				board("GPU-1", "NVIDIA L40S", watts, 0, false, 0), board("GPU-2", "NVIDIA L40S", watts, 0, false, 0),
				board("GPU-3", "NVIDIA L40S", 280, 0.9, true, 0), board("GPU-4", "NVIDIA L40S", 300, 0.9, false, 0),
				board("GPU-5", "Tesla T4", 10, 0, false, 0), board("GPU-6", "Tesla T4", 10, 0, false, 0),
				board("GPU-7", "Tesla T4", 66, 0.9, true, 0), board("GPU-8", "NVIDIA A10", 20, 0, false, 0),
				board("GPU-9", "NVIDIA H100 80GB HBM3", 66, 0, false, 80),
			},
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
	got := programtest.MustInvoke(t, "config", "propose", "--data", data)
	want := "  - name: \"NVIDIA L40S\"\n    slices: 1\n    idle_watts: 36\n"
	if !strings.Contains(got, want) || strings.Count(got, "name:") != 1 {
		t.Errorf("proposed\n%s\nwant only\n%s", got, want)
	}
	for _, model := range []string{"Tesla T4", "NVIDIA A10", "NVIDIA H100 80GB HBM3"} {
		if !strings.Contains(got, fmt.Sprintf("  # %s: ", model)) {
			t.Errorf("proposed\n%s\nwant a reason why not %s", got, model)
		}
	}
}
