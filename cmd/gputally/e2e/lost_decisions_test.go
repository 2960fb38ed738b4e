package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

// C8, R6: a broker whose segment is damaged cuts it off there, and with it what
// was decided. Nothing is decided a second time then, under the same number; a
// copy of the file brings everything back.
func TestLostDecisionsAreNotDecidedAgain(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--by", "finance")
	segment := filepath.Join(data, "kafka", "data", "partitions", "gputally.decisions.v1-0", "0.dat")
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte(nil), whole...)
	damaged[len(damaged)-100] ^= 1
	placetest.WriteFile(t, segment, string(damaged))
	book := filepath.Join(t.TempDir(), "prices.yaml")
	placetest.WriteFile(t, book,
		"currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {NVIDIA H100 80GB HBM3: {gpu_hour: "+
			"\"3.00\"}}\n")
	for _, args := range [][]string{
		{"invoice", "finalise", "--period", "2026-03"},
		{"invoice", "approve", "--period", "2026-03", "--tenant", "team-b", "--expect", strings.Repeat("0", 64)},
		{"invoice", "note", "--period", "2026-03", "--tenant", "team-a"},
		{"prices", "load", book},
	} {
		got := programtest.Invoke(t, append(args, "--data", data, "--by", "mallory")...)
		if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "until the topic has been restored") {
			t.Errorf("%v: got %+v, want a refusal", args, got)
		}
	}
	if got := programtest.Invoke(t, "audit", "--data", data, "--output", "csv"); strings.Contains(got.Stdout,
		"mallory") || !strings.Contains(got.Stderr, "not this log's") {
		t.Errorf("audit: got %+v, want nothing decided by mallory", got)
	}
	placetest.WriteFile(t, segment, string(whole))
	if err := os.Remove(strings.TrimSuffix(segment, ".dat") + ".idx"); err != nil {
		t.Fatal(err)
	}
	if said := programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--output",
		"csv"); strings.Count(said, "stood already") != 2 {
		t.Errorf("after the file is back: %q, want both invoices to stand", said)
	}
	programtest.MustVerify(t, data)
}
