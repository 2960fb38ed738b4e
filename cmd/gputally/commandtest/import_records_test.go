package commandtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

// slurmJob is a job as sacct would list it.
type slurmJob struct {
	id, user, account string
	gpus              int
	start, end        time.Time
}

// slurmWeek makes a week of jobs as a cluster has them: single tasks and
// arrays, short and long, over midnights and the end of the month, requeued,
// and cancelled before they began (zero times).
func slurmWeek(from time.Time) []slurmJob {
	r := rand.New(rand.NewPCG(11, 0))
	var jobs []slurmJob
	for i := range 400 {
		start := from.Add(time.Duration(r.IntN(7*24*3600)) * time.Second)
		if start.Hour() < 8 && r.IntN(3) > 0 { // people sleep
			start = start.Add(8 * time.Hour)
		}
		length := time.Duration(1+r.IntN(60)) * time.Duration(1+r.IntN(60)) * time.Duration(1+r.IntN(8)) * time.Second
		j := slurmJob{
			id: fmt.Sprint(4000 + i), user: fmt.Sprintf("u%d", i%17), account: []string{"bio", "phys", "chem"}[i%3],
			gpus: []int{0, 1, 1, 1, 2, 4, 8}[r.IntN(7)], start: start, end: start.Add(length),
		}
		if i%9 == 0 {
			j.id = fmt.Sprintf("3999_%d", i)
		}
		if i%50 == 49 {
			j.start, j.end = time.Time{}, time.Time{}
		}
		jobs = append(jobs, j)
		if i%40 == 1 { // requeued after a node failed
			again := j
			again.start, again.end = j.end.Add(90*time.Second), j.end.Add(30*time.Minute)
			jobs = append(jobs, again)
		}
	}
	return jobs
}

// sacctFile lists jobs that overlap a time, in the zone's own time.
func sacctFile(t *testing.T, jobs []slurmJob, from, to time.Time, zone *time.Location) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("JobID|User|Account|Partition|State|Start|End|ElapsedRaw|AllocTRES|NodeList\n")
	for _, j := range jobs {
		if j.start.IsZero() {
			fmt.Fprintf(&b, "%s|%s|%s|gpu|CANCELLED by 0|Unknown|%s|0||None assigned\n", j.id, j.user, j.account,
				from.In(zone).Format("2006-01-02T15:04:05"))
			continue
		}
		if !j.start.Before(to) || !j.end.After(from) {
			continue
		}
		state, end, tres := "COMPLETED", j.end.In(zone).Format("2006-01-02T15:04:05"), "cpu=4"
		if j.end.After(to) {
			state, end = "RUNNING", "Unknown"
		}
		if j.gpus > 0 {
			tres = fmt.Sprintf("billing=4,cpu=4,gres/gpu:a100=%d,gres/gpu=%d", j.gpus, j.gpus)
		}
		fmt.Fprintf(&b, "%s|%s|%s|gpu|%s|%s|%s|0|%s|n[1-2]\n", j.id, j.user, j.account, state,
			j.start.In(zone).Format("2006-01-02T15:04:05"), end, tres)
	}
	path := filepath.Join(t.TempDir(), "sacct.txt")
	placetest.WriteFile(t, path, b.String())
	return path
}

// jobSliceMS is what each job of each user and account held until a time.
func jobSliceMS(jobs []slurmJob, until time.Time) map[string]string {
	sums := map[string]int64{}
	for _, j := range jobs {
		end := j.end
		if end.After(until) {
			end = until
		}
		if ms := int64(j.gpus) * 1000 * end.Sub(j.start).Milliseconds(); !j.start.IsZero() && ms > 0 {
			sums[j.account+" "+j.user+" "+j.id] += ms
		}
	}
	out := map[string]string{}
	for key, ms := range sums {
		out[key] = strconv.FormatInt(ms, 10)
	}
	return out
}

// heldSliceMS is the ledger's, and the pool's buckets in all.
func heldSliceMS(t *testing.T, data string) (held map[string]string, buckets int64) {
	t.Helper()
	got := programtest.Invoke(t, "usage", "--data", data, "--by", "tenant,user,workload", "--output", "json")
	if got.Code != cli.ExitOK {
		t.Fatalf("usage: got %+v", got)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(got.Stdout), &rows); err != nil {
		t.Fatal(err)
	}
	held = map[string]string{}
	for _, row := range rows {
		for _, bucket := range ask.BucketNames {
			ms, err := strconv.ParseInt(fmt.Sprintf("%.0f", row[bucket+"_slice_ms"]), 10, 64)
			if err != nil {
				t.Fatalf("%v: %v", row, err)
			}
			buckets += ms
			if bucket == "unproven" && ms > 0 {
				held[fmt.Sprintf("%s %s %s", row["tenant"], row["user"], row["workload"])] = strconv.FormatInt(ms, 10)
			}
		}
	}
	return held, buckets
}

// TestImportSacctWeek: a week of a cluster's accounting, imported twice, and
// then its last day once more, with a job shortened, one re-owned and one
// gone: every job's total is right to the millisecond, and so is the whole.
func TestImportSacctWeek(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 2, 25, 5, 0, 0, 0, time.UTC) // midnight there; the month ends on Saturday
	to := from.AddDate(0, 0, 7)
	const capacity = 400
	jobs, data := slurmWeek(from), programtest.NewDataDir(t)
	load := func(jobs []slurmJob, from time.Time) programtest.Outcome {
		t.Helper()
		return programtest.Invoke(t, "import", "sacct", sacctFile(t, jobs, from, to, zone), "--data", data, "--cluster",
			"hpc", "--capacity", fmt.Sprint("a100=", capacity),
			"--time-zone", zone.String(), "--window-start", from.Format(time.RFC3339), "--window-end", to.Format(time.RFC3339))
	}
	check := func(step string, jobs []slurmJob) {
		t.Helper()
		held, buckets := heldSliceMS(t, data)
		if diff := cmp.Diff(jobSliceMS(jobs, to), held); diff != "" {
			t.Errorf("%s: slice-ms by job (-want +got):\n%s", step, diff)
		}
		if want := capacity * 1000 * to.Sub(from).Milliseconds(); buckets != want {
			t.Errorf("%s: all buckets have %d slice-ms, want %d", step, buckets, want)
		}
	}
	if got := load(jobs, from); got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		"168 batches imported, 0 bad rows") {
		t.Fatalf("first import: got %+v", got)
	}
	check("first", jobs)
	if got := load(jobs, from); got.Code != cli.ExitOK || !strings.Contains(got.Stdout,
		": 0 records new, 0 changed, 0 deleted, ") || !strings.Contains(got.Stdout, "; 0 batches imported") {
		t.Errorf("second import: got %+v", got)
	}
	lastDay := to.AddDate(0, 0, -1)
	fixed := correctLastDay(t, jobs, lastDay)
	got := load(fixed, lastDay)
	if got.Code != cli.ExitOK || !strings.Contains(got.Stdout, ": 0 records new, 2 changed, 1 deleted, ") {
		t.Errorf("the last day again: got %+v", got)
	}
	check("corrected", fixed)
	if r := programtest.VerifyLedger(t, data); !slices.Equal(r.Failed(),
		[]string{"C7"}) || !r.Checks["C7"].NotProven || !strings.Contains(r.Checks["C7"].Figures, `price model "a100"`) {
		t.Errorf("verify: failed %v, C7 %+v; want only that a100 has no price", r.Failed(), r.Checks["C7"])
	}
}

// correctLastDay shortens one job that began on the day, gives one to another
// account, and leaves one out.
func correctLastDay(t *testing.T, jobs []slurmJob, day time.Time) []slurmJob {
	t.Helper()
	out := slices.Clone(jobs)
	var on []int
	for i, j := range out {
		if j.start.After(day) && j.end.Before(day.Add(24*time.Hour)) && j.gpus > 0 && j.end.Sub(j.start) > time.Minute {
			on = append(on, i)
		}
	}
	if len(on) < 3 {
		t.Fatalf("%d jobs on the last day, want 3", len(on))
	}
	out[on[0]].end = out[on[0]].end.Add(-17 * time.Second)
	out[on[1]].account = "law"
	return slices.Delete(out, on[2], on[2]+1)
}

// TestImportRecordsRefused: what can't be told from the records' own command
// line is said before anything is sent.
func TestImportRecordsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.csv")
	placetest.WriteFile(t, file, "tenant,start,end,gpus\na,2026-03-01,2026-03-02,1\na,never,2026-03-02,1\n")
	rejects := filepath.Join(t.TempDir(), "rejects.txt")
	data := programtest.NewDataDir(t)
	if got := programtest.Invoke(t, "import", "allocations", file, "--data", data, "--cluster", "k", "--rejects",
		rejects); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr,
		`:3: start: time "never"`) || !strings.Contains(got.Stdout, "24 batches imported, 1 bad row") {
		t.Errorf("a bad row: got %+v", got)
	}
	if text, err := os.ReadFile(rejects); err != nil || string(text) != file+
		":3: start: time \"never\": must be RFC 3339, epoch seconds, or a local time such as 2026-03-01 08:30:00\n" {
		t.Errorf("rejects: %q, %v", text, err)
	}
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"source \"allocations\" has records of node \"k\" already", []string{"--source", "other"}},
		{"give both --window-start and --window-end", []string{"--window-start", "2026-03-01"}},
		{
			"at full UTC hours",
			[]string{"--window-start", "2026-03-01", "--window-end", "2026-03-02", "--time-zone", "Asia/Kolkata"},
		},
		{"unknown zone", []string{"--time-zone", "Mars/Olympus"}},
		{"--capacity", []string{"--capacity", "many"}},
		{"tenant=vc: the header has no such column", []string{"--columns", "tenant=vc"}},
		{"--delimiter", []string{"--delimiter", "ab"}},
	} {
		if got := programtest.Invoke(t,
			append([]string{"import", "allocations", file, "--data", data, "--cluster", "k"},
				c.flags...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%v: got %+v, want %q", c.flags, got, c.want)
		}
	}
	lines := programtest.WriteLines(t,
		[]string{`{"cluster":"live","node":"n1","slot":"2026-03-01T00:00:00Z","slot_ms":10000,"collector":"c1","boot_ms":1,"seq":0,"gpus":[]}`})
	programtest.MustImport(t, data, lines)
	if got := programtest.Invoke(t, "import", "allocations", file, "--data", data, "--cluster",
		"live"); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, `collector "c1" has sent 1 batches of it`) {
		t.Errorf("a cluster with a collector: got %+v", got)
	}
}
