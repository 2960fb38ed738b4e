package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newLeftFixture has jobs 41 and 42 running at positions 0 and 1.
func newLeftFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, nil)
	f.slurm.start("41", "")
	f.slurm.start("42", "")
	f.slurm.node = describe("gpu:8", "gpu:2(IDX:0-1)")
	f.write(t, "0", "41\n")
	f.write(t, "1", "42\n")
	f.want(t, held41, held42)
	return f
}

const (
	held41 = "index 0, whole: 41 alice bio"
	held42 = "index 1, whole: 42 alice bio"
)

// wantDropped compares the counter, by reason.
func (f *fixture) wantDropped(t *testing.T, ended, unknown float64) {
	t.Helper()
	for reason, want := range map[string]float64{droppedEnded: ended, droppedUnknown: unknown} {
		if got := testutil.ToFloat64(f.dropped.WithLabelValues(reason)); got != want {
			t.Errorf("dropped as %s: %v, want %v", reason, got, want)
		}
	}
	if got := strings.Count(f.log.String(), "which no epilog removed"); got != int(ended+unknown) {
		t.Errorf("named in the log %d times, want %v: %s", got, ended+unknown, f.log)
	}
}

// over lets a number of looks pass.
func (f *fixture) over(looks int, t *testing.T, want ...string) {
	t.Helper()
	for range looks {
		f.clock.Advance(lookEvery)
		f.want(t, want...)
	}
}

func TestAJobWhoseEpilogDidNotRunIsDropped(t *testing.T) {
	for _, state := range []string{
		"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED",
		"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
	} {
		f := newLeftFixture(t)
		f.slurm.jobs[0].state = state
		f.clock.Advance(lookEvery - 1)
		f.want(t, held41, held42)
		f.clock.Advance(1)
		f.want(t, held41, held42)
		f.wantDropped(t, 0, 0)
		f.clock.Advance(lookEvery)
		f.want(t, held42)
		f.wantDropped(t, 1, 0)
		f.over(3, t, held42)
		f.wantDropped(t, 1, 0)
	}
}

func TestJobsThatHoldAreKept(t *testing.T) {
	for _, state := range []string{"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "RESIZING", "A_NEW_ONE"} {
		f := newLeftFixture(t)
		f.slurm.jobs[0].state = state
		f.over(3, t, held41, held42)
		f.wantDropped(t, 0, 0)
	}
}

func TestAJobThatWasOverInOneLookOnlyIsKept(t *testing.T) {
	f := newLeftFixture(t)
	for _, state := range []string{"PENDING", "RUNNING", "PENDING", "RUNNING"} {
		f.slurm.jobs[0].state = state
		f.over(1, t, held41, held42)
	}
	f.wantDropped(t, 0, 0)
}

func TestNewJobsDontMakeLooksOfOthers(t *testing.T) {
	f := newLeftFixture(t)
	f.slurm.jobs[0].state = "FAILED"
	f.over(1, t, held41, held42)
	f.slurm.down = errDown // at the second look
	f.over(1, t, held41, held42)
	f.slurm.down = nil
	f.slurm.start("43", "")
	f.clock.Advance(10 * time.Second)
	f.write(t, "2", "43\n")
	held43 := "index 2, whole: 43 alice bio"
	f.want(t, held41, held42, held43)
	f.over(1, t, held42, held43)
	f.wantDropped(t, 1, 0)
}

func TestAJobThatSlurmForgotIsDroppedWhereOthersHoldWhatIsInUse(t *testing.T) {
	f := newLeftFixture(t)
	f.slurm.jobs = f.slurm.jobs[1:]
	f.over(2, t, held41, held42) // the node has two in use: 41 may be hidden
	f.wantDropped(t, 0, 0)
	for _, used := range []string{"gpu:1(IDX:1),shard:2(IDX:0)", "gpu:2(CNT:2)"} {
		f.slurm.node = describe("gpu:8", used)
		f.over(2, t, held41, held42)
	}
	f.slurm.node = "no answer"
	f.over(2, t, held41, held42)
	f.slurm.node = describe("gpu:8", "gpu:1(IDX:1)")
	f.over(1, t, held42)
	f.wantDropped(t, 0, 1)
}

func TestAForgottenJobBesideTheOneThatHasItsGPU(t *testing.T) {
	f := newLeftFixture(t)
	f.slurm.jobs = f.slurm.jobs[1:]
	f.slurm.start("43", "")
	f.write(t, "0", "41\n43\n")
	held43 := "index 0, whole: 43 alice bio"
	f.want(t, held41, held43, held42)
	f.over(1, t, held41, held43, held42)
	f.over(1, t, held43, held42)
	f.wantDropped(t, 0, 1)
	f.write(t, "0", "41\n") // the epilog of 43
	f.want(t, held42)
	f.wantDropped(t, 0, 1)
	f.write(t, "0", "")
	f.want(t, held42)
	if len(f.known) != 1 {
		t.Errorf("%d jobs remembered, want the one that a file names", len(f.known))
	}
}

// TestARequeuedJobIsBackWithItsProlog: its id is the same, and so is its line.
func TestARequeuedJobIsBackWithItsProlog(t *testing.T) {
	f := newLeftFixture(t)
	f.slurm.jobs[0].state = "PENDING"
	f.over(1, t, held41, held42)
	f.over(1, t, held42)
	touch := func(at time.Time) {
		if err := os.Chtimes(filepath.Join(f.dir, "0"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	touch(noon)
	f.want(t, held42) // still waits: somebody else's line was taken out
	f.slurm.jobs[0].state = "RUNNING"
	f.want(t, held42) // not looked up for nothing
	touch(noon.Add(time.Second))
	f.slurm.down = errDown
	f.wantError(t, "job 41: "+errDown.Error())
	f.slurm.down = nil
	f.clock.Advance(10 * time.Second)
	f.want(t, held41, held42)
	f.wantDropped(t, 1, 0)
}

func TestALookThatFailsChangesNothing(t *testing.T) {
	f := newLeftFixture(t)
	f.slurm.down = errDown
	calls := len(f.slurm.calls)
	f.over(5, t, held41, held42)
	f.want(t, held41, held42)
	if got := len(f.slurm.calls) - calls; got != 5 {
		t.Errorf("%d calls in 5 min, want one a minute", got)
	}
	f.wantDropped(t, 0, 0)
}

func TestDroppedJobsDontNeedTheLayout(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Gres = []GresDevice{{Minor: u32(3)}} })
	f.slurm.start("41", "")
	f.write(t, "7", "41\n")
	f.wantError(t, "position 7: the node's GRES list has 1 devices")
	f.slurm.jobs[0].state = "NODE_FAIL"
	for range 2 {
		f.clock.Advance(lookEvery)
		_, _ = f.Read(t.Context())
	}
	f.want(t)
	f.wantDropped(t, 1, 0)
}
