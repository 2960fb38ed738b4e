package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/demo"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

const (
	ingested = "gputally_ingest_messages_total"
	spooled  = "gputally_collector_batches_spooled_total"
)

// shortDemo is two days of the simulated month.
var shortDemo = []string{"demo", "--once", "--days", "2", "--seed", "7", "--listen", "127.0.0.1:0"}

// demoMonth is the month that a demo's directory was begun with.
func demoMonth(t *testing.T, data string) string {
	t.Helper()
	var state demo.State
	if err := json.Unmarshal(placetest.ReadFile(t, filepath.Join(data, demo.DemoName)), &state); err != nil {
		t.Fatal(err)
	}
	return state.Month.Format("2006-01")
}

// slowIngest has ingest take small chunks, so that there is a long way on
// which to be killed.
func slowIngest(t *testing.T) (config []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	placetest.WriteFile(t, path, "ingest: {chunk_records: 100}\n")
	return []string{"--config", path}
}

// ofTheRun is what a demo prints of itself and not of the ledger. R6 counts the
// decisions, among them the mapping that billing notes when it comes to it.
var ofTheRun = regexp.MustCompile(`(?m)^(Done in|Look at:|R6 ) .*$`)

func figures(p *programtest.Process) string {
	text, _ := p.Stdout.Read()
	return ofTheRun.ReplaceAllString(text, "")
}

// TestKilledDemoBillsTheSame kills a demo wherever it is, and its engine, and
// starts it again: in the end nothing tells it from one that nobody disturbed.
func TestKilledDemoBillsTheSame(t *testing.T) {
	undisturbed := programtest.NewDataDir(t)
	demo := shortDemo
	if testing.Short() {
		demo = oneDay
	}
	first := programtest.Spawn(t, undisturbed, demo...)
	if code := first.Wait(t); code != cli.ExitOK {
		t.Fatalf("an undisturbed demo ended with %d", code)
	}
	if summary := figures(first); strings.Contains(summary, "…") {
		t.Errorf("a figure of the summary is cut:\n%s", summary)
	}
	again := programtest.Spawn(t, undisturbed, demo...)
	if code := again.Wait(t); code != cli.ExitOK {
		t.Fatalf("a second demo in the same directory ended with %d", code)
	}
	// The same figures stand for the same boot too: nothing was simulated twice.
	if diff := cmp.Diff(figures(first), figures(again)); diff != "" {
		t.Errorf("a second run prints (-first +second):\n%s", diff)
	}
	killed := programtest.NewDataDir(t)
	killDemo(t, killed, demo)
	month := demoMonth(t, undisturbed)
	if diff := cmp.Diff(programtest.AskStanding(t, undisturbed, month),
		programtest.AskStanding(t, killed, month)); diff != "" {
		t.Errorf("ledger and invoices (-undisturbed +killed):\n%s", diff)
	}
	// What was killed goes on under the run that it left open, and ends it.
	for data, want := range map[string]int{undisturbed: 2, killed: 1} {
		runs := programtest.MustInvoke(t, "import", "runs", "list", "--all", "--data", data, "--output", "csv")
		if strings.Count(runs, ",ended,") != want || strings.Count(runs, ",open,") != 0 {
			t.Errorf("want %d runs, all ended:\n%s", want, runs)
		}
	}
}

// killDemo runs a demo to its end, through five kills (two in a short run), and two
// of its engine.
func killDemo(t *testing.T, data string, demo []string) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("kill points by seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	args := append(slowIngest(t), demo...)
	type point struct {
		metric string
		most   int
	}
	points := []point{{spooled, 3000}, {ingested, 1000}, {ingested, 1000}, {ingested, 1000}, {ingested, 1000}}
	if testing.Short() {
		points = points[:2]
	}
	for _, progress := range points {
		p := programtest.Spawn(t, data, args...)
		p.Reaches(t, progress.metric, float64(1+random.IntN(progress.most)))
		p.Kill(t)
	}
	p := programtest.Spawn(t, data, args...)
	p.Reaches(t, ingested, 300)
	if !p.KillEngine(t) {
		t.Fatal("a demo that ingests has no engine")
	}
	p.Stdout.Await(t, regexp.MustCompile(`SIMULATED`)) // ingest has ended, the questions begin
	if !p.KillEngine(t) {
		t.Log("the questions were answered before the engine could be killed again")
	}
	if code := p.Wait(t); code != cli.ExitOK {
		t.Fatalf("a demo whose engine was killed twice ended with %d", code)
	}
}

// smallExporter serves one H100 whose counters go on.
func smallExporter(t *testing.T) (address string) {
	t.Helper()
	var scrapes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		labels := `gpu="0",UUID="GPU-k",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",namespace="team-a",pod="train-0",container="main"`
		_, _ = io.WriteString(w, strings.Join([]string{
			"DCGM_FI_DEV_GPU_UTIL{" + labels + "} 93",
			"DCGM_FI_PROF_SM_ACTIVE{" + labels + "} 0.71",
			"DCGM_FI_DEV_POWER_USAGE{" + labels + "} 640",
			fmt.Sprintf("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{%s} %d", labels, 640_000*scrapes.Add(1)),
			"",
		}, "\n"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// TestKilledStandaloneKeepsItsChain kills a standalone while it scrapes, and
// stops it in order in between: each boot names the one before it (C4), and no
// slot that was acknowledged is missing.
func TestKilledStandaloneKeepsItsChain(t *testing.T) {
	t.Parallel() // it waits
	data, target := programtest.NewDataDir(t), smallExporter(t)
	args := []string{"standalone", "--scrape", target, "--slot", "1s", "--listen", "127.0.0.1:0"}
	for boot, kill := range []bool{true, false, true, true} {
		p := programtest.Spawn(t, data, args...)
		p.Reaches(t, ingested, 2)
		if kill {
			p.Kill(t)
		} else if code := p.Interrupt(t); code != cli.ExitOK {
			t.Errorf("boot %d: an interrupt ended it with %d", boot, code)
		}
	}
	p := programtest.Spawn(t, data, args...)
	p.Reaches(t, ingested, 2)
	if !p.KillEngine(t) {
		t.Fatal("a standalone has no engine")
	}
	before, _ := p.Metric(t, ingested)
	p.Reaches(t, ingested, before+2)
	programtest.MustVerifyLive(t, data)
	if code := p.Interrupt(t); code != cli.ExitOK {
		t.Errorf("the last boot ended with %d", code)
	}
	r := programtest.MustVerify(t, data)
	if got := r.Checks["C4"].Figures; !strings.Contains(got, "in 5 boots, 0 ") {
		t.Errorf("C4 says %q, want five boots and no gap", got)
	}
}

func TestDemoOfSomeDays(t *testing.T) {
	month := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	for days, want := range map[int]struct {
		end   time.Time
		title string
		valid bool
	}{
		0:  {month.AddDate(0, 1, 0), "September 2026", true},
		1:  {month.AddDate(0, 0, 1), "The first day of September 2026", true},
		30: {month.AddDate(0, 1, 0), "The first 30 days of September 2026", true},
		31: {month.AddDate(0, 0, 31), "The first 31 days of September 2026", false},
		-1: {month.AddDate(0, 0, -1), "The first -1 days of September 2026", false},
	} {
		state := demo.State{Month: month, Days: days}
		if got := state.End(); !got.Equal(want.end) {
			t.Errorf("%d days end at %s, want %s", days, got, want.end)
		}
		if got := state.Period(); got != want.title {
			t.Errorf("%d days are called %q, want %q", days, got, want.title)
		}
		if err := state.Validate(); (err == nil) != want.valid {
			t.Errorf("%d days: error %v, valid %v", days, err, want.valid)
		}
	}
}
