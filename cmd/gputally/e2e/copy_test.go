package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/placetest"
)

// loseDecisions takes the topic of decisions out of a data directory.
func loseDecisions(t *testing.T, data string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(data, "kafka", "data", "partitions", broker.TopicDecisions+"-0")); err != nil {
		t.Fatal(err)
	}
}

// TestLostDecisionsAreRestored: where the topic is gone and its copy is there
// every command says what to run, and that brings everything back.
func TestLostDecisionsAreRestored(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--by", "finance")
	before := programtest.MustInvoke(t, "audit", "--data", data, "--parts", "--output", "csv")
	invoice := programtest.MustInvoke(t, "invoice", "show", "--data", data, "--period", "2026-03", "--tenant", "team-a",
		"--output", "json")
	file, skip := programtest.WriteLines(t, programtest.FleetLines(t)), programtest.Unread(t, data)
	loseDecisions(t, data)
	copyDir := filepath.Join(data, datadir.CopyDir)
	for _, args := range [][]string{
		{"invoice", "list", "--period", "2026-03"},
		{"invoice", "finalise", "--period", "2026-03"},
		{"policy", "show"},
		{"audit"},
		{"verify"},
		{"audit", "rebuild", "--over-contradiction"},
		{"dlq", "skip", "--offset", skip, "--reason", "damaged", "--by", "alice"},
		{"import", "batches", file},
		{
			"import", "runs", "open", "--cluster", "counted", "--sends", "simulated", "--collector", "*", "--slot", "1m",
			"--from", "2026-03-01", "--to", "2026-04-01",
		},
		{"inventory", "cluster", "new", "--slot", "10s"},
	} {
		got := programtest.Invoke(t, append(args, "--data", data)...)
		if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr+got.Stdout, "audit restore --from "+copyDir) {
			t.Errorf("%v: got %+v, want what to run", args, got)
		}
	}
	programtest.MustInvoke(t, "audit", "restore", "--data", data, "--from", copyDir, "--by", "alice")
	after := programtest.MustInvoke(t, "audit", "--data", data, "--parts", "--output", "csv")
	if want, got := withoutTimes(before), withoutTimes(after); !strings.HasPrefix(got, want) {
		t.Errorf("decisions after the restore:\n%s\nwant before all:\n%s", got, want)
	}
	if !strings.Contains(after, "restore decisions") || !strings.Contains(after, "alice") {
		t.Errorf("the restore is no decision:\n%s", after)
	}
	if got := programtest.MustInvoke(t, "invoice", "show", "--data", data, "--period", "2026-03", "--tenant", "team-a",
		"--output", "json"); got != invoice {
		t.Errorf("invoice after the restore:\n%s\nwant\n%s", got, invoice)
	}
	if got := programtest.MustInvoke(t, "audit", "restore", "--data", data, "--from", copyDir); !strings.Contains(got,
		"nothing to restore") {
		t.Errorf("a second restore: %q", got)
	}
	programtest.MustVerify(t, data)
}

// TestM2ACopyThatTablesOrWitnessContradictIsNotRestored: of such a copy nothing is
// appended, so that the right one can still be restored.
func TestM2ACopyThatTablesOrWitnessContradictIsNotRestored(t *testing.T) {
	data, other := programtest.NewFleet(t), programtest.NewFleet(t)
	for _, dir := range []string{data, other} {
		programtest.MustInvoke(t, "invoice", "finalise", "--data", dir, "--period", "2026-03", "--by", "finance")
	}
	own, forged, aside := filepath.Join(data, datadir.CopyDir), filepath.Join(other,
		datadir.CopyDir), filepath.Join(t.TempDir(), "aside")
	mustRename(t, own, aside)
	loseDecisions(t, data)
	got := programtest.Invoke(t, "audit", "restore", "--data", data, "--from", forged, "--by", "alice")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "differ from offset") {
		t.Errorf("a copy that the tables contradict: %+v, want a refusal", got)
	}
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	mustRename(t, aside, own)
	programtest.MustInvoke(t, "audit", "restore", "--data", data, "--from", own, "--by", "alice")
	programtest.MustVerify(t, data)
}

func mustRename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestMeteringGoesOnBesideALostLog: a standalone declares nothing on it, and stops
// for it neither: what isn't measured now never is.
func TestMeteringGoesOnBesideALostLog(t *testing.T) {
	data, target := programtest.NewFleet(t), programtest.NewFlakyExporter(t)
	loseDecisions(t, data)
	running, log := programtest.StartLogged(t, "standalone", "--data", data, "--slot", "1s", "--scrape", target.URL())
	log.Await(t, regexp.MustCompile("gputally is running"))
	if status, _ := programtest.Fetch(t, running.Url+"/-/ready"); status == http.StatusOK {
		t.Error("ready without its decisions")
	}
	if code := running.Stop(); code != cli.ExitOK {
		t.Errorf("standalone ended with %d", code)
	}
	programtest.MustInvoke(t, "audit", "restore", "--data", data, "--from", filepath.Join(data, datadir.CopyDir),
		"--by", "alice")
}

// withoutTimes leaves out the column of append times, which are the broker's.
func withoutTimes(csv string) string {
	var b strings.Builder
	for line := range strings.Lines(csv) {
		fields := strings.SplitN(line, ",", 3)
		fmt.Fprint(&b, fields[0], ",", fields[2])
	}
	return b.String()
}

// TestM2AnEditedAndRebuiltLogIsNamed, by verify and by audit, though somebody
// dropped the rows that contradicted it.
func TestM2AnEditedAndRebuiltLogIsNamed(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--by", "finance")
	kept := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(filepath.Join(data, datadir.CopyDir), kept); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), settings.ConfigName)
	placetest.WriteFile(t, config, "decisions: {copy_dir: none}\n")
	loseDecisions(t, data)
	if got := programtest.Invoke(t, "--config", config, "audit", "rebuild", "--data", data, "--by",
		"mallory"); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "from offset 0 on") {
		t.Errorf("audit rebuild: got %+v, want the first offset", got)
	}
	programtest.MustInvoke(t, "--config", config, "audit", "rebuild", "--data", data, "--by", "mallory",
		"--over-contradiction")
	if got := programtest.MustInvoke(t, "--config", config, "audit", "--data", data, "--output",
		"csv"); !strings.Contains(got, "mallory") || !strings.Contains(got, "rebuild projection") {
		t.Errorf("the rebuild is no decision: %s", got)
	}
	placetest.WriteFile(t, config, "decisions: {copy_dir: "+kept+"}\n")
	if got := programtest.Invoke(t, "--config", config, "audit", "--data",
		data); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "from offset 0 on") {
		t.Errorf("audit: got %+v, want the first offset that was changed", got)
	}
	if got := programtest.Invoke(t, "--config", config, "verify", "--data",
		data); got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "from offset 0 on") {
		t.Errorf("verify: got %+v, want the first offset that was changed", got)
	}
}
