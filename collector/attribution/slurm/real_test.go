package slurm

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/internal/clock"
)

// both are readers of the same node in the two ways there are.
type both struct {
	*cluster
	clock   *clock.Fake
	readers map[string]*Reader
}

func newBoth(t *testing.T, c *cluster) *both {
	t.Helper()
	b := &both{cluster: c, clock: clock.NewFake(noon), readers: map[string]*Reader{}}
	runScript(t, "prolog.sh", c.mapping) // as slurmd's ExecStartPre=
	for _, from := range []string{FromFiles, FromScontrol} {
		cfg := DefaultConfig()
		cfg.From, cfg.MappingDir, cfg.SlurmConf = from, c.mapping, c.conf
		cfg.GresConf, cfg.MIGMinors = filepath.Join(c.dir, "gres.conf"), filepath.Join(c.dir, "mig-minors")
		r, err := New(cfg, Deps{Clock: b.clock, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: prometheus.NewRegistry(), Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		b.readers[from] = r
	}
	return b
}

// want compares one poll of each reader, in no order.
func (b *both) want(t *testing.T, want ...string) {
	t.Helper()
	b.clock.Advance(10 * time.Second)
	for from, r := range b.readers {
		b.wantFrom(t, from, r, want...)
	}
}

func (b *both) wantFrom(t *testing.T, from string, r *Reader, want ...string) {
	t.Helper()
	snap, err := r.Read(t.Context())
	if err != nil {
		t.Errorf("from %s: %v", from, err)
		return
	}
	got := holders(snap)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got, cmp.Transformer("empty", func(s []string) []string { return append([]string{""}, s...) })); diff != "" {
		t.Errorf("from %s: holders (-want +got):\n%s", from, diff)
	}
}

// The devices by position, as slurm.conf's order of types has them.
var atPosition = []string{"minor 0, gi 1, ci 0", "minor 0, gi 2, ci 0", "minor 0, gi 3, ci 0", "minor 5", "minor 4"}

func TestRealSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
	b := newBoth(t, startCluster(t))
	who := " " + currentUser(t) + " bio"
	t.Run("slurmd has the list in the order of types", func(t *testing.T) {
		list := b.must(t, find(t, "slurmd"), "-N", "n1", "-f", b.conf, "-G")
		mig, whole := strings.Index(list, "nvidia-cap[13,21,30]"), strings.Index(list, "nvidia[5,4]")
		if mig < 0 || whole < mig {
			t.Errorf("slurmd -G: want the instances before the boards, got\n%s", list)
		}
	})
	t.Run("nobody", func(t *testing.T) { b.want(t) })
	t.Run("a whole board is not at its minor", func(t *testing.T) {
		one := b.submit(t, 1, "--gres=gpu:h100:1")
		b.want(t, atPosition[3]+": "+one+who)
		other := b.submit(t, 1, "--gres=gpu:h100:1")
		b.want(t, atPosition[3]+": "+one+who, atPosition[4]+": "+other+who)
		b.cancel(t, one)
		b.want(t, atPosition[4]+": "+other+who)
		b.cancel(t, other)
		b.want(t)
	})
	t.Run("gpus and an array side by side", func(t *testing.T) {
		whole := b.submit(t, 1, "--gpus=h100:2", "-N1")
		array := b.submit(t, 2, "-a", "0-1", "--gres=gpu:1g.10gb:1")
		first := b.must(t, "squeue", "-h", "-o", "%A", "-j", array+"_0")
		last := b.must(t, "squeue", "-h", "-o", "%A", "-j", array+"_1")
		b.want(t, atPosition[3]+": "+whole+who, atPosition[4]+": "+whole+who, atPosition[0]+": "+first+who, atPosition[1]+": "+last+who)
		b.cancel(t, array+"_0")
		b.want(t, atPosition[3]+": "+whole+who, atPosition[4]+": "+whole+who, atPosition[1]+": "+last+who)
		b.cancel(t, array)
		b.cancel(t, whole)
		b.want(t)
	})
	t.Run("text that users choose", func(t *testing.T) {
		forged := "x UserId=victim(7) Account=victim QOS=(null) JobState=RUNNING JOB_GRES=gpu:1   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:3-4) MinCPUsNode=1 WorkDir=/\nJobId=99 JobName=z"
		id := b.submit(t, 1, "--gres=gpu:1g.10gb:2", "-J", forged, "--comment", forged, "-A", "a | b\nc", "--wckey", forged)
		b.want(t, atPosition[0]+": "+id+" "+currentUser(t)+" a | b\nc", atPosition[1]+": "+id+" "+currentUser(t)+" a | b\nc")
		b.cancel(t, id)
	})
	t.Run("odd names", func(t *testing.T) {
		var want, ids []string
		for i, name := range []string{" ", "a  b ", "é\xff"} {
			id := b.submit(t, 1, "--gres=gpu:1g.10gb:1", "-J", name)
			want, ids = append(want, atPosition[i]+": "+id+who), append(ids, id)
		}
		b.want(t, want...)
		for _, id := range ids {
			b.cancel(t, id)
		}
	})
	t.Run("a suspended job keeps its GPUs", func(t *testing.T) {
		id := b.submit(t, 1, "--gres=gpu:h100:1")
		b.must(t, "scontrol", "suspend", id)
		b.want(t, atPosition[3]+": "+id+who)
		b.must(t, "scontrol", "resume", id)
		b.want(t, atPosition[3]+": "+id+who)
		b.cancel(t, id)
	})
	t.Run("a job without GPUs", func(t *testing.T) {
		id := b.submit(t, 1)
		b.want(t)
		b.cancel(t, id)
	})
	t.Run("epilog takes out its own line only", func(t *testing.T) { testOwnLineOnly(t, b, who) })
	t.Run("a line that no epilog took out", func(t *testing.T) { testLeftLine(t, b) })
	t.Run("an array of short jobs", func(t *testing.T) { testShortJobs(t, b) })
	t.Run("a node that Slurm doesn't know", func(t *testing.T) { testUnknownNode(t, b) })
	t.Run("without slurmctld", func(t *testing.T) { testWithoutSlurmctld(t, b, who) })
}

func testOwnLineOnly(t *testing.T, b *both, who string) {
	files := b.readers[FromFiles]
	path := filepath.Join(b.mapping, "3")
	if err := os.WriteFile(path, []byte("99999999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := b.submit(t, 1, "--gres=gpu:h100:1")
	b.wantFrom(t, FromFiles, files, atPosition[3]+": 99999999", atPosition[3]+": "+id+who)
	b.cancel(t, id)
	b.wantFrom(t, FromFiles, files, atPosition[3]+": 99999999")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.want(t)
}

// testLeftLine is of a job that Slurm remembers, and of one that it doesn't.
func testLeftLine(t *testing.T, b *both) {
	files := b.readers[FromFiles]
	id := b.submit(t, 1, "--gres=gpu:h100:1")
	b.cancel(t, id)
	path := filepath.Join(b.mapping, "3")
	if err := os.WriteFile(path, []byte(id+"\n99999998\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	who := " " + currentUser(t) + " bio"
	b.wantFrom(t, FromFiles, files, atPosition[3]+": "+id+who, atPosition[3]+": 99999998")
	b.clock.Advance(lookEvery)
	b.wantFrom(t, FromFiles, files)
	for _, reason := range []string{droppedEnded, droppedUnknown} {
		if got := testutil.ToFloat64(files.dropped.WithLabelValues(reason)); got != 1 {
			t.Errorf("dropped as %s: %v, want 1", reason, got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.want(t)
}

// testShortJobs reads at the pace at which a failed question is asked again, while
// short jobs with GPUs come and go beside one that stays.
func testShortJobs(t *testing.T, b *both) {
	id := b.submit(t, 1, "--gpus=h100:1", "-N1") // which squeue doesn't tell
	stays := atPosition[3] + ": " + id + " " + currentUser(t) + " bio"
	b.want(t, stays)
	array := b.must(t, "sbatch", "--parsable", "--mem=10", "-n1", "--chdir=/", "-o", "/dev/null", "--gres=gpu:1g.10gb:1", "-a", "0-29", "--wrap", "true")
	reads, asked := 0, 0
	b.wait(t, "the end of the array", func() bool {
		b.clock.Advance(b.readers[FromScontrol].cfg.ScontrolEvery / 5)
		snap, err := b.readers[FromScontrol].Read(t.Context())
		if err != nil || !slices.Contains(holders(snap), stays) {
			t.Errorf("read %d: %q, %v; want %q among them", reads, holders(snap), err, stays)
		}
		reads++
		if snap.At.Equal(b.clock.Now()) {
			asked++
		}
		return t.Failed() || b.ask("squeue", "-h", "-o", "x", "-j", array) == ""
	})
	if asked < 2 {
		t.Errorf("%d reads, %d of them of new answers, want 2 or more", reads, asked)
	}
	t.Logf("%d reads, %d of them of new answers", reads, asked)
	b.cancel(t, id)
}

func testUnknownNode(t *testing.T, b *both) {
	cfg := b.readers[FromScontrol].cfg
	cfg.Node = "n9"
	r, err := New(cfg, Deps{Clock: b.clock, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "Invalid node name n9") {
		t.Errorf("got %q, %v; want an error, not a free node", holders(snap), err)
	}
}

func testWithoutSlurmctld(t *testing.T, b *both, who string) {
	id := b.submit(t, 1, "--gres=gpu:h100:1")
	held := atPosition[3] + ": " + id + who
	b.want(t, held)
	if err := syscall.Kill(b.ctld.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(b.ctld.Process.Pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	b.readers[FromScontrol].client.run = programs(300*time.Millisecond, b.conf)
	b.want(t, held) // by the last answer, and by what is known
	b.clock.Advance(20*time.Second + 1)
	b.wantFrom(t, FromFiles, b.readers[FromFiles], held)
	snap, err := b.readers[FromScontrol].Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the last answer is ") || !strings.Contains(err.Error(), "no answer within 300ms") {
		t.Errorf("after scontrol_max_age: got %q, %v; want an error", holders(snap), err)
	}
}
