package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/broker"
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
	data := newFleet(t)
	mustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--by", "finance")
	before := mustInvoke(t, "audit", "--data", data, "--parts", "--output", "csv")
	invoice := mustInvoke(t, "invoice", "show", "--data", data, "--period", "2026-03", "--tenant", "team-a", "--output", "json")
	file, skip := writeLines(t, fleetLines(t)), unread(t, data)
	loseDecisions(t, data)
	copyDir := filepath.Join(data, copyName)
	for _, args := range [][]string{
		{"invoice", "list", "--period", "2026-03"},
		{"invoice", "finalise", "--period", "2026-03"},
		{"policy", "show"},
		{"audit"},
		{"verify"},
		{"audit", "rebuild", "--over-contradiction"},
		{"dlq", "skip", "--offset", skip, "--reason", "damaged", "--by", "alice"},
		{"import", "batches", file},
		{"import", "runs", "open", "--cluster", "counted", "--sends", "simulated", "--collector", "*", "--slot", "1m", "--from", "2026-03-01", "--to", "2026-04-01"},
		{"inventory", "cluster", "new", "--slot", "10s"},
	} {
		got := invoke(t, append(args, "--data", data)...)
		if got.Code != exitFailed || !strings.Contains(got.Stderr+got.Stdout, "audit restore --from "+copyDir) {
			t.Errorf("%v: got %+v, want what to run", args, got)
		}
	}
	mustInvoke(t, "audit", "restore", "--data", data, "--from", copyDir, "--by", "alice")
	after := mustInvoke(t, "audit", "--data", data, "--parts", "--output", "csv")
	if want, got := withoutTimes(before), withoutTimes(after); !strings.HasPrefix(got, want) {
		t.Errorf("decisions after the restore:\n%s\nwant before all:\n%s", got, want)
	}
	if !strings.Contains(after, "restore decisions") || !strings.Contains(after, "alice") {
		t.Errorf("the restore is no decision:\n%s", after)
	}
	if got := mustInvoke(t, "invoice", "show", "--data", data, "--period", "2026-03", "--tenant", "team-a", "--output", "json"); got != invoice {
		t.Errorf("invoice after the restore:\n%s\nwant\n%s", got, invoice)
	}
	if got := mustInvoke(t, "audit", "restore", "--data", data, "--from", copyDir); !strings.Contains(got, "nothing to restore") {
		t.Errorf("a second restore: %q", got)
	}
	mustVerify(t, data)
}

// TestM2ACopyThatTablesOrWitnessContradictIsNotRestored: of such a copy nothing is
// appended, so that the right one can still be restored.
func TestM2ACopyThatTablesOrWitnessContradictIsNotRestored(t *testing.T) {
	data, other := newFleet(t), newFleet(t)
	for _, dir := range []string{data, other} {
		mustInvoke(t, "invoice", "finalise", "--data", dir, "--period", "2026-03", "--by", "finance")
	}
	own, forged, aside := filepath.Join(data, copyName), filepath.Join(other, copyName), filepath.Join(t.TempDir(), "aside")
	mustRename(t, own, aside)
	loseDecisions(t, data)
	got := invoke(t, "audit", "restore", "--data", data, "--from", forged, "--by", "alice")
	if got.Code != exitFailed || !strings.Contains(got.Stderr, "differ from offset") {
		t.Errorf("a copy that the tables contradict: %+v, want a refusal", got)
	}
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	mustRename(t, aside, own)
	mustInvoke(t, "audit", "restore", "--data", data, "--from", own, "--by", "alice")
	mustVerify(t, data)
}

func mustRename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// unread is the place of a message that nobody ingested.
func unread(t *testing.T, data string) string {
	t.Helper()
	msgs := []broker.Message{{Topic: broker.TopicSamples, Key: []byte("n1"), Value: []byte("\xff")}}
	withLedger(t, data, func(p *pipeline) {
		if err := p.client.Producer().Produce(t.Context(), msgs); err != nil {
			t.Fatal(err)
		}
	})
	return (&place{partition: msgs[0].Partition, offset: msgs[0].Offset, given: true}).String()
}

// TestMeteringGoesOnBesideALostLog: a standalone declares nothing on it, and stops
// for it neither: what isn't measured now never is.
func TestMeteringGoesOnBesideALostLog(t *testing.T) {
	data, target := newFleet(t), newFlakyExporter(t)
	loseDecisions(t, data)
	running, log := startLogged(t, "standalone", "--data", data, "--slot", "1s", "--scrape", target.url())
	log.await(t, regexp.MustCompile("gputally is running"))
	if status, _ := fetch(t, running.url+"/-/ready"); status == http.StatusOK {
		t.Error("ready without its decisions")
	}
	if code := running.stop(); code != exitOK {
		t.Errorf("standalone ended with %d", code)
	}
	mustInvoke(t, "audit", "restore", "--data", data, "--from", filepath.Join(data, copyName), "--by", "alice")
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
	data := newFleet(t)
	mustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--by", "finance")
	kept := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(filepath.Join(data, copyName), kept); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), configName)
	writeFile(t, config, "decisions: {copy_dir: none}\n")
	loseDecisions(t, data)
	if got := invoke(t, "--config", config, "audit", "rebuild", "--data", data, "--by", "mallory"); got.Code != exitFailed || !strings.Contains(got.Stderr, "from offset 0 on") {
		t.Errorf("audit rebuild: got %+v, want the first offset", got)
	}
	mustInvoke(t, "--config", config, "audit", "rebuild", "--data", data, "--by", "mallory", "--over-contradiction")
	if got := mustInvoke(t, "--config", config, "audit", "--data", data, "--output", "csv"); !strings.Contains(got, "mallory") || !strings.Contains(got, "rebuild projection") {
		t.Errorf("the rebuild is no decision: %s", got)
	}
	writeFile(t, config, "decisions: {copy_dir: "+kept+"}\n")
	if got := invoke(t, "--config", config, "audit", "--data", data); got.Code != exitFailed || !strings.Contains(got.Stderr, "from offset 0 on") {
		t.Errorf("audit: got %+v, want the first offset that was changed", got)
	}
	if got := invoke(t, "--config", config, "verify", "--data", data); got.Code != exitFailed || !strings.Contains(got.Stdout, "from offset 0 on") {
		t.Errorf("verify: got %+v, want the first offset that was changed", got)
	}
}
