package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
)

func newScontrolFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, func(c *Config) { c.From, c.MappingDir = FromScontrol, "" })
	f.slurm.node = describe("gpu:a40:3,gpu:h100:2", "gpu:a40:2(IDX:0,2),gpu:h100:1(IDX:3)")
	f.slurm.start("41", "gpu:a40:1(IDX:0),gpu:h100:1(IDX:3)")
	f.slurm.start("42", "gpu:a40:1(IDX:2),gpu:h100:0(IDX:)")
	return f
}

var bothJobs = []string{"index 0, whole: 41 alice bio", "index 3, whole: 41 alice bio", "index 2, whole: 42 alice bio"}

func TestScontrolAsksAtItsOwnPaceAndForEachJobOnce(t *testing.T) {
	f := newScontrolFixture(t)
	for range 10 {
		f.want(t, bothJobs...)
		f.clock.Advance(time.Second)
	}
	if got := f.slurm.count("squeue"); got != 1 {
		t.Errorf("squeue within 10 s: %d calls, want 1", got)
	}
	f.want(t, bothJobs...)
	if queues, jobs, nodes := f.slurm.count("squeue"), f.slurm.count("scontrol job"), f.slurm.count("scontrol node"); queues != 2 || jobs != 2 || nodes != 2 {
		t.Errorf("after 10 s: %d squeue, %d show job, %d show node; want 2, 2, 2: %q", queues, jobs, nodes, f.slurm.calls)
	}
}

func TestScontrolGivesTheLastAnswerUpToItsMaxAge(t *testing.T) {
	f := newScontrolFixture(t)
	f.slurm.down = errDown
	f.wantError(t, "query Slurm: "+errDown.Error())
	f.slurm.down = nil
	f.wantError(t, errDown.Error()) // not asked again yet
	f.clock.Advance(2 * time.Second)
	f.want(t, bothJobs...)
	f.slurm.down = errDown
	f.clock.Advance(30 * time.Second)
	f.want(t, bothJobs...)
	f.clock.Advance(1)
	f.wantError(t, "query Slurm: the last answer is 30.000000001s old: "+errDown.Error())
	f.slurm.down = nil
	f.clock.Advance(2 * time.Second)
	f.want(t, bothJobs...)
}

func TestScontrolWithNothingHeld(t *testing.T) {
	f := newScontrolFixture(t)
	f.slurm.jobs = nil
	f.slurm.node = describe("(null)", "gpu:0")
	f.want(t)
}

func TestACompletingJobHoldsWhatIsStillInUse(t *testing.T) {
	f := newScontrolFixture(t)
	f.slurm.jobs[0].state = "COMPLETING" // has 0 and 3
	f.slurm.record["41"] = record(f.slurm.jobs[0], "gpu:a40:1(IDX:0),gpu:h100:1(IDX:3)")
	f.slurm.start("43", "gpu:a40:1(IDX:0)")
	f.want(t, "index 2, whole: 42 alice bio", "index 0, whole: 43 alice bio", "index 3, whole: 41 alice bio")
	f.slurm.node = describe("gpu:a40:3,gpu:h100:2", "gpu:a40:2(IDX:0,2)")
	f.clock.Advance(10 * time.Second)
	f.want(t, "index 2, whole: 42 alice bio", "index 0, whole: 43 alice bio")
}

func TestASuspendedJobKeepsItsGPUs(t *testing.T) {
	f := newScontrolFixture(t)
	f.slurm.jobs[1].state = "SUSPENDED"
	f.want(t, bothJobs...)
}

func TestARequeuedJobIsAskedForAgain(t *testing.T) {
	f := newScontrolFixture(t)
	f.want(t, bothJobs...)
	f.slurm.jobs[1].start = "2026-11-21T12:05:00"
	f.slurm.record["42"] = record(f.slurm.jobs[1], "gpu:a40:1(IDX:1)")
	f.slurm.node = describe("gpu:a40:3,gpu:h100:2", "gpu:a40:2(IDX:0-1),gpu:h100:1(IDX:3)")
	f.clock.Advance(10 * time.Second)
	f.want(t, "index 0, whole: 41 alice bio", "index 3, whole: 41 alice bio", "index 1, whole: 42 alice bio")
	if len(f.allocated) != 2 {
		t.Errorf("allocations remembered: %v, want those of the two jobs as they run now", f.allocated)
	}
}

func TestAJobThatShrankIsAskedForAgain(t *testing.T) {
	f := newScontrolFixture(t)
	f.want(t, bothJobs...)
	f.slurm.record["41"] = record(f.slurm.jobs[0], "gpu:h100:1(IDX:3)")
	f.slurm.node = describe("gpu:a40:3,gpu:h100:2", "gpu:a40:1(IDX:2),gpu:h100:1(IDX:3)")
	f.clock.Advance(10 * time.Second)
	f.want(t, "index 3, whole: 41 alice bio", "index 2, whole: 42 alice bio")
	if queues, jobs := f.slurm.count("squeue"), f.slurm.count("scontrol job"); queues != 3 || jobs != 3 {
		t.Errorf("%d squeue, %d show job; want 3 and 3: the one that shrank twice: %q", queues, jobs, f.slurm.calls)
	}
}

func TestAJobThatGrewIsAskedForAgain(t *testing.T) {
	f := newScontrolFixture(t)
	f.want(t, bothJobs...)
	f.slurm.record["42"] = record(f.slurm.jobs[1], "gpu:a40:2(IDX:1-2)")
	f.slurm.node = describe("gpu:a40:3,gpu:h100:2", "gpu:a40:3(IDX:0-2),gpu:h100:1(IDX:3)")
	f.clock.Advance(10 * time.Second)
	f.want(t, "index 0, whole: 41 alice bio", "index 3, whole: 41 alice bio", "index 1, whole: 42 alice bio", "index 2, whole: 42 alice bio")
}

// TestJobsThatGoMeanwhileAreSkipped: an array of short jobs ends between the
// questions, all the time.
func TestJobsThatGoMeanwhileAreSkipped(t *testing.T) {
	f := newScontrolFixture(t)
	f.slurm.start("43", "gpu:a40:1(IDX:1)")
	delete(f.slurm.record, "43") // and forgotten
	f.slurm.start("44", "gpu:a40:1(IDX:1)")
	over := f.slurm.jobs[3]
	over.state = "COMPLETED"
	f.slurm.record["44"] = record(over, "gpu:a40:1(IDX:1)")
	f.slurm.start("45", "gpu:a40:1(IDX:1)")
	over = f.slurm.jobs[4]
	over.state = "COMPLETING"
	f.slurm.record["45"] = record(over, "gpu:a40:1(IDX:1)")
	f.want(t, bothJobs...)
	if got := f.slurm.count("squeue"); got != 1 {
		t.Errorf("squeue: %d calls, want 1", got)
	}
}

func TestAJobThatGoesWhileItsGPUIsInUseIsAskedAround(t *testing.T) {
	f := newScontrolFixture(t)
	delete(f.slurm.record, "42")
	f.wantError(t, "position 2 is in use, but by no job that squeue shows")
	if got := f.slurm.count("squeue"); got != 3 {
		t.Errorf("squeue: %d calls, want 3", got)
	}
}

func TestOnlyJobsWithGPUsAreAskedFor(t *testing.T) {
	f := newScontrolFixture(t)
	for _, id := range []string{"50", "51", "52"} {
		f.slurm.start(id, "") // on the CPUs
	}
	f.want(t, bothJobs...)
	if got := f.slurm.count("scontrol job"); got != 2 {
		t.Errorf("show job: %d calls, want 2, of the jobs with GPUs: %q", got, f.slurm.calls)
	}
}

// TestGPUsThatWereAskedForOtherwiseAreFound: squeue doesn't tell --gpus and
// --exclusive, the node does.
func TestGPUsThatWereAskedForOtherwiseAreFound(t *testing.T) {
	f := newScontrolFixture(t)
	f.slurm.start("50", "")
	f.slurm.start("51", "")
	f.slurm.record["51"] = record(f.slurm.jobs[3], "gpu:a40:1(IDX:1)")
	f.slurm.node = describe("gpu:a40:3,gpu:h100:2", "gpu:a40:3(IDX:0-2),gpu:h100:1(IDX:3)")
	all := append(slices.Clone(bothJobs), "index 1, whole: 51 alice bio")
	f.want(t, all...)
	f.clock.Advance(10 * time.Second)
	f.want(t, all...)
	if queues, jobs := f.slurm.count("squeue"), f.slurm.count("scontrol job"); queues != 3 || jobs != 4 {
		t.Errorf("%d squeue, %d show job; want 3 in two polls, 4: each job once: %q", queues, jobs, f.slurm.calls)
	}
}

func TestAnAnswerSaysWhenItWasSo(t *testing.T) {
	f := newScontrolFixture(t)
	for _, c := range []struct{ now, at time.Duration }{{0, 0}, {9 * time.Second, 0}, {10 * time.Second, 10 * time.Second}, {19 * time.Second, 10 * time.Second}} {
		f.clock.Set(noon.Add(c.now))
		snap, err := f.Read(t.Context())
		if err != nil || !snap.At.Equal(noon.Add(c.at)) {
			t.Errorf("after %s: an answer of %s, %v; want it of noon and %s", c.now, snap.At, err, c.at)
		}
	}
	f.slurm.down = errDown
	f.clock.Set(noon.Add(25 * time.Second))
	if snap, err := f.Read(t.Context()); err != nil || !snap.At.Equal(noon.Add(10*time.Second)) {
		t.Errorf("when Slurm is down: an answer of %s, %v; want the last, of noon and 10 s", snap.At, err)
	}
}

func TestScontrolRefusesPositionsThatMayBeInstances(t *testing.T) {
	for _, kind := range []string{"1g.10gb", "nvidia_a100_3g.20gb", "1g.10gb.me", "1G-5GB"} {
		f := newScontrolFixture(t)
		f.slurm.node = describe("gpu:"+kind+":7,gpu:h100:2", "gpu:"+kind+":2(IDX:0,2),gpu:h100:1(IDX:3)")
		f.wantError(t, "the node's Gres= has MIG instances (gpu:"+kind+":7), but their positions are unknown: list the devices under gres")
	}
	f := newScontrolFixture(t)
	f.slurm.node = describe("gpu:a100-80gb:4,gpu:h100_pcie:1", "gpu:a100-80gb:2(IDX:0,2),gpu:h100_pcie:1(IDX:3)")
	f.want(t, bothJobs...)
}

func TestScontrolRefusesWhatDoesNotAddUp(t *testing.T) {
	for _, c := range []struct {
		change func(*fakeSlurm)
		want   string
	}{
		{func(s *fakeSlurm) { s.jobs = s.jobs[:1] }, "position 2 is in use, but by no job that squeue shows"},
		{func(s *fakeSlurm) { s.node = describe("gpu:5", "gpu:1(IDX:0)") }, "job 41 of alice has position 3, which is free on the node"},
		{func(s *fakeSlurm) { s.node = describe("gpu:5,shard:8", "gpu:0,shard:2(IDX:2)") }, "GresUsed: gres shard:2: shares of a GPU can't be read"},
		{func(s *fakeSlurm) { s.node = "Node n1 not found\n" }, `want NodeName=n1`},
		{func(s *fakeSlurm) { s.node = "" }, `want NodeName=n1`},
		{func(s *fakeSlurm) { s.node = "NodeName=n1 Gres=gpu:2 State=IDLE\n" }, "no GresUsed="},
		{func(s *fakeSlurm) { s.node = describe("gpu:x:y", "gpu:0") }, `Gres: gres "gpu:x:y"`},
		{func(s *fakeSlurm) { s.record["42"] = record(s.jobs[1], "gpu:2(IDX:2)") }, "job 42 of alice: gres gpu::2: IDX has 1 position"},
		{func(s *fakeSlurm) { s.record["42"] = record(s.jobs[1], "shard:1(IDX:2)") }, "job 42 of alice: gres shard:1: shares"},
		{func(s *fakeSlurm) { s.record["42"] = s.record["41"] }, `"JobId=42 "`},
		{func(s *fakeSlurm) { s.record["42"], _, _ = strings.Cut(s.record["42"], " MinCPUsNode") }, "the answer is truncated"},
		{func(s *fakeSlurm) { s.record["42"] = strings.Replace(s.record["42"], "n[1-2]", "n[1-", 1) }, "nodes: expand"},
		{func(s *fakeSlurm) { s.jobs[0].id = "x" }, `job id "x": want a number`},
		{func(s *fakeSlurm) { s.jobs[0].display = "--help" }, `job 41: id "--help"`},
	} {
		f := newScontrolFixture(t)
		c.change(f.slurm)
		f.wantError(t, c.want)
	}
}

// TestUsersCantForgeJobs: names, accounts and comments with all that a record
// has, newlines included, change nothing.
func TestUsersCantForgeJobs(t *testing.T) {
	f := newScontrolFixture(t)
	forged := "x UserId=victim(7) Account=victim QOS=(null) JobState=RUNNING JOB_GRES=gpu:1 Nodes=n1 GRES=gpu:2(IDX:0-1) MinCPUsNode=1 WorkDir=/\nJobId=99 JobName=z"
	j := f.slurm.jobs[1]
	j.name = strings.ReplaceAll(forged, "victim QOS", "bio QOS") // its own account, other GPUs
	f.slurm.jobs[1] = j
	f.slurm.record["42"] = record(j, "gpu:a40:1(IDX:2)")
	f.want(t, bothJobs...)

	clear(f.allocated)
	f.clock.Advance(10 * time.Second)
	j.name, j.account, j.wckey = forged, strings.ToLower(forged), "w JobState=RUNNING GRES=gpu:1(IDX:1)"
	f.slurm.jobs[1] = j
	text := record(j, "gpu:a40:1(IDX:2)")
	text = strings.Replace(text, "QOS=(null) JobState=RUNNING Reason", "QOS=(null) WCKey="+j.wckey+" JobState=RUNNING Reason", 1)
	f.slurm.record["42"] = strings.Replace(text, "Comment=x", "Comment=JOB_GRES=gpu:9 Nodes=n1 GRES=gpu:1(IDX:1)", 1)
	f.want(t, "index 0, whole: 41 alice bio", "index 3, whole: 41 alice bio", "index 2, whole: 42 alice "+j.account)
}

func TestAJobIsAskedForByItsDisplayID(t *testing.T) {
	f := newScontrolFixture(t)
	for i, display := range []string{"40_1", "40+1"} {
		j := f.slurm.jobs[i]
		f.slurm.record[display] = strings.Replace(f.slurm.record[j.id], "JobName=train ", "HetJobId=40 HetJobOffset=1 JobName=train HetJobIdSet=40-41 ", 1)
		delete(f.slurm.record, j.id)
		f.slurm.jobs[i].display = display
	}
	f.want(t, bothJobs...)
}

func TestParseJobsRefuses(t *testing.T) {
	for out, want := range map[string]string{
		"N1N1N":                     "3 fields: want 9 for each job",
		"xN1N1NRNSNuNaNwNgNjN":      `"x" between jobs`,
		"N1N1NRNSNuNaNwNgNjN\nN1NN": "want 9 for each job",
		"N0N1NrNsNuNaNwNgNjN\n":     `job id "0"`,
	} {
		if jobs, err := parseJobs(out, "N"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: got %v, %v; want %s", out, jobs, err, want)
		}
	}
	if jobs, err := parseJobs("", "N"); err != nil || len(jobs) != 0 {
		t.Errorf("parse nothing: got %v, %v", jobs, err)
	}
}

func FuzzRecord(f *testing.F) {
	j := job{id: "42", display: "42", state: "RUNNING", user: "alice", account: "bio", wckey: "(null)", name: "train"}
	f.Add(record(j, "gpu:1(IDX:2)"), "train", "bio")
	f.Add("JobId=42 JobName= Account= QOS= JobState= GRES=gpu:1(IDX:0) WorkDir=", "", "")
	f.Fuzz(func(t *testing.T, out, name, account string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(out)+len(name)+len(account)), func() {
			j.name, j.account = name, account
			text, err := trustedPart(out, j)
			if err != nil {
				return
			}
			if !strings.HasPrefix(text, "JobState=") || strings.Contains(text, " WorkDir=") {
				t.Errorf("trusted part of %q: %q", out, text)
			}
			_, _ = parseAllocation(text, "n1")
		})
	})
}

func FuzzParseNode(f *testing.F) {
	f.Add(describe("gpu:a40:3,gpu:h100:2(S:0-1)", "gpu:a40:2(IDX:0,2),gpu:h100:1(IDX:3)"))
	f.Fuzz(func(t *testing.T, out string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(out)), func() {
			if node, err := parseNode(out, "n1"); err == nil && node.gres == nil {
				t.Errorf("parse %q: no gres and no error", out)
			}
		})
	})
}
