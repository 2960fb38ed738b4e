package spool

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// changing are the system calls by which a spool could change its directory.
const changing = "openat,write,pwrite64,fsync,fdatasync,sync_file_range,ftruncate,unlinkat,rename,renameat,renameat2,mkdirat"

const (
	roomyCapBytes = 1 << 20 // never reached
	tightCapBytes = 5_000   // reached, so that the oldest are dropped
)

// call is one system call on the spool's directory: the nth of its name that
// the process makes.
type call struct {
	name string
	n    int
	path string // relative to the directory
	line string
}

func (c call) String() string { return fmt.Sprintf("%s_%d_%s", c.name, c.n, c.path) }

// creates says that the call can change the directory.
func (c call) creates() bool { return c.name != "openat" || strings.Contains(c.line, "O_CREAT") }

// injected is what became of a workload run under strace.
type injected struct {
	dir    string
	stdout string
	calls  []call // on the directory
	log    string // of all calls
	killed bool
}

// plainTest is this package's test binary without the race detector, under which
// each of a thousand children would take twice as long to start. TestMain removes
// it.
var plainTest = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gputally-spool-")
	if err != nil {
		return "", err
	}
	plainDir = dir
	path := filepath.Join(dir, "spool.test")
	if out, err := exec.Command("go", "test", "-c", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the test: %w\n%s", err, out)
	}
	return path, nil
})

var plainDir string

// child is the program that runs the workload.
func child(t *testing.T) string {
	t.Helper()
	info, _ := debug.ReadBuildInfo()
	if info == nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return os.Args[0]
	}
	path, err := plainTest()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// strace runs the workload with a fault, or without one where it is "", and
// looks at some of its main thread's system calls.
func strace(t *testing.T, capBytes int64, trace, fault string) injected {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("strace is needed in CI: %v", err)
		}
		t.Skipf("needs strace, of the package of that name: %v", err)
	}
	base := t.TempDir()
	run, log := injected{dir: filepath.Join(base, "collector", "spool")}, filepath.Join(base, "strace")
	args := []string{"-qq", "-y", "-s", "0", "-o", log, "-e", "signal=none", "-e", "trace=" + trace}
	if fault != "" {
		args = append(args, "-e", "inject="+fault)
	}
	cmd := exec.CommandContext(t.Context(), path, append(args, "--", child(t))...)
	cmd.Env = append(os.Environ(), workloadDirVar+"="+run.dir, workloadCapVar+"="+strconv.FormatInt(capBytes, 10))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		status, _ := ended.Sys().(syscall.WaitStatus)
		run.killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	}
	if err != nil && !run.killed {
		t.Fatalf("strace with %q: %v\n%s%s", fault, err, stdout.String(), stderr.String())
	}
	run.stdout = stdout.String()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	run.log = string(text)
	run.calls = callsOn(run.dir, run.log)
	return run
}

var callName = regexp.MustCompile(`^\w+`)

// callsOn picks the calls on dir out of strace's log, and counts all of them.
func callsOn(dir, log string) (calls []call) {
	place := regexp.MustCompile(regexp.QuoteMeta(dir) + `(?:/([\w.]+))?[">]`)
	count := map[string]int{}
	for line := range strings.Lines(log) {
		name := callName.FindString(line)
		count[name]++
		if found := place.FindStringSubmatch(line); found != nil {
			calls = append(calls, call{name, count[name], found[1], line})
		}
	}
	return calls
}

// said is what the child printed: what it was told, and what it had begun.
type said struct {
	tried, appended uint64 // the last ids of groups given to Append, and accepted
	acking, acked   uint64
	failed          []string
	bad             []string // lines that must not be there
}

func hear(t *testing.T, stdout string) (s said) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var from uint64
		var err error
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "append":
			_, err = fmt.Sscan(rest, &from, &s.tried)
		case "appended":
			_, err = fmt.Sscan(rest, &from, &s.appended)
		case "ack":
			_, err = fmt.Sscan(rest, &s.acking)
		case "acked":
			_, err = fmt.Sscan(rest, &s.acked)
		case "failed":
			s.failed = append(s.failed, rest)
		default:
			s.bad = append(s.bad, line)
		}
		if err != nil {
			t.Fatalf("line %q of the child: %v", line, err)
		}
	}
	return s
}

// checkHeard opens what the child left: everything acknowledged is there, in
// order and byte for byte, unless it is told as dropped; nothing is there that
// was never handed in; and opening it once more changes nothing.
func checkHeard(t *testing.T, dir string, capBytes int64, s said) {
	t.Helper()
	if len(s.bad) > 0 {
		t.Errorf("the child says %q", s.bad)
	}
	first, records := reopen(t, dir, capBytes)
	if first.Appended < s.appended || first.Appended > s.tried {
		t.Errorf("%d appended, the child was told of %d and had handed in %d", first.Appended, s.appended, s.tried)
	}
	head := first.Cursor + first.Dropped + 1
	if diff := cmp.Diff(ids(head, first.Appended), idsOf(records), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("ids from the cursor to the last one (-want +got):\n%s", diff)
	}
	for _, r := range records {
		if !bytes.Equal(r.Data, workloadRecord(r.ID)) {
			t.Errorf("record %d is not what was appended", r.ID)
		}
	}
	if first.CorruptRecords != 0 {
		t.Errorf("%d records are told as damaged: %+v", first.CorruptRecords, first.DroppedRanges)
	}
	checkSettled(t, first, s, head)
	second, again := reopen(t, dir, capBytes)
	if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Stats (-opened once +opened twice):\n%s", diff)
	}
	checkRecords(t, records, again)
}

// checkSettled compares what is gone with what was acknowledged: no more is gone
// than that and what is told as dropped, and no acknowledged one comes back.
func checkSettled(t *testing.T, st Stats, s said, head uint64) {
	t.Helper()
	if head <= s.acked {
		t.Errorf("record %d comes again, %d was acknowledged", head, s.acked)
	}
	gone := map[uint64]bool{}
	for _, r := range st.DroppedRanges {
		if r.Reason != ReasonFull || r.BootMS != workloadBoot || r.FromSeq != r.FromID-1 || r.ToSeq != r.ToID-1 {
			t.Errorf("range %+v, want one of the full spool with the seqs of its ids", r)
		}
		for id := r.FromID; id <= r.ToID; id++ {
			gone[id] = true
		}
	}
	if uint64(len(gone)) != st.Dropped {
		t.Errorf("%d records dropped, the ranges tell %d", st.Dropped, len(gone))
	}
	for id := uint64(1); id < head; id++ {
		if id > s.acking && !gone[id] {
			t.Errorf("record %d is gone, was not acknowledged, and no range tells of it", id)
		}
	}
}

func idsOf(records []Record) (out []uint64) {
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}

// reopen opens the spool, reads all of it and closes it.
func reopen(t *testing.T, dir string, capBytes int64) (Stats, []Record) {
	t.Helper()
	s, err := Open(dir, workloadOptions(capBytes))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	records, st := drainRecords(t, s), checkSum(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return st, records
}

// TestKilledAtEverySystemCall kills the workload at each system call that
// changes the directory, before the call is carried out.
func TestKilledAtEverySystemCall(t *testing.T) {
	for name, capBytes := range map[string]int64{"roomy": roomyCapBytes, "tight": tightCapBytes} {
		t.Run(name, func(t *testing.T) {
			whole := strace(t, capBytes, changing, "")
			checkHeard(t, whole.dir, capBytes, hear(t, whole.stdout))
			if st, _ := reopen(t, whole.dir, capBytes); (st.Dropped > 0) != (capBytes == tightCapBytes) {
				t.Errorf("%d records dropped at a cap of %d bytes", st.Dropped, capBytes)
			}
			points := slices.DeleteFunc(whole.calls, func(c call) bool { return !c.creates() })
			wantKinds(t, points, "openat", "pwrite64", "fsync", "ftruncate", "unlinkat")
			for at := range places(t, len(points)) {
				c := points[at]
				t.Run(c.String(), func(t *testing.T) {
					t.Parallel()
					run := strace(t, capBytes, c.name, fmt.Sprintf("%s:signal=KILL:when=%d", c.name, c.n))
					if !run.killed {
						t.Fatalf("the child was not killed at %s", c.line)
					}
					checkHeard(t, run.dir, capBytes, hear(t, run.stdout))
				})
			}
		})
	}
}

// TestTheDirectoryItselfIsSynced: a power cut must not take away the names that
// lead to the spool.
func TestTheDirectoryItselfIsSynced(t *testing.T) {
	run := strace(t, roomyCapBytes, changing, "")
	var left []string // parents of what was made, yet to be synced
	made, first := 0, regexp.MustCompile(`pwrite64\(`).FindStringIndex(run.log)
	if first == nil {
		t.Fatal("the workload writes nothing")
	}
	for line := range strings.Lines(run.log[:first[0]]) {
		if found := regexp.MustCompile(`^mkdirat\(.*"(.+)",`).FindStringSubmatch(line); found != nil {
			left = append(left, filepath.Dir(found[1]))
			made++
		}
		left = slices.DeleteFunc(left, func(dir string) bool {
			return strings.HasPrefix(line, "fsync(") && strings.Contains(line, "<"+dir+">")
		})
	}
	if made != 2 || len(left) > 0 {
		t.Errorf("%d folders made, want 2; not synced before the first write: %v", made, left)
	}
}

// wantKinds sees that the workload meets each kind of call, on segments and on
// the state.
func wantKinds(t *testing.T, points []call, names ...string) {
	t.Helper()
	count := map[string]int{}
	for _, c := range points {
		count[c.name]++
	}
	for _, name := range names {
		if count[name] == 0 {
			t.Errorf("the workload makes no call of %s", name)
		}
	}
	t.Logf("%d places: %v", len(points), count)
	if len(count) > len(names)+2 { // mkdirat, and write for the torn tail
		t.Errorf("calls of %v, want %v", slices.Sorted(maps.Keys(count)), names)
	}
}

// TestEverySystemCallFails fails each call once, as a failing or a full disk
// does: an append that met it says so, the next attempt succeeds, and nothing is
// lost or made up.
func TestEverySystemCallFails(t *testing.T) {
	errno := map[string]string{"fsync": "EIO", "pwrite64": "ENOSPC", "ftruncate": "EIO", "unlinkat": "EIO", "openat": "EMFILE"}
	whole := strace(t, roomyCapBytes, changing, "")
	calls := slices.DeleteFunc(whole.calls, func(c call) bool { return errno[c.name] == "" || !c.creates() })
	for at := range places(t, len(calls)) {
		c := calls[at]
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			run := strace(t, roomyCapBytes, "pwrite64,fsync,ftruncate,unlinkat,"+c.name, fmt.Sprintf("%s:error=%s:when=%d", c.name, errno[c.name], c.n))
			s := hear(t, run.stdout)
			if run.killed || s.appended != recordsAt(roomyCapBytes) {
				t.Errorf("the child was told of %d records, want %d", s.appended, recordsAt(roomyCapBytes))
			}
			checkFault(t, run, c, s)
			s.acked = 0 // an Ack that failed leaves the cursor behind until the next one
			checkHeard(t, run.dir, roomyCapBytes, s)
		})
	}
}

// checkFault sees that the fault was met and told. A segment whose write or sync
// failed must not be written or synced again under the same inode: after a
// failed fsync the kernel forgets the error, and what the next one says is worth
// nothing.
func checkFault(t *testing.T, run injected, c call, s said) {
	t.Helper()
	at := slices.IndexFunc(run.calls, func(have call) bool { return strings.Contains(have.line, "(INJECTED)") })
	if at < 0 {
		t.Fatalf("no fault was injected at %s", c.line)
	}
	hit := run.calls[at]
	onSegment := strings.HasSuffix(hit.path, segmentSuffix) && (hit.name == "pwrite64" || hit.name == "fsync")
	if len(s.failed) > 1 || (onSegment && len(s.failed) == 0 && !cutsTail(run.calls[:at])) {
		t.Errorf("%s: the child says %q, want one failure", hit.line, s.failed)
	}
	if !onSegment {
		return
	}
	for _, later := range run.calls[at+1:] {
		if later.path != hit.path {
			continue
		}
		if later.name == "unlinkat" {
			return
		}
		if later.name == "pwrite64" || later.name == "fsync" {
			t.Errorf("%s is used after its %s failed: %s", hit.path, hit.name, later.line)
		}
	}
}

// cutsTail says that the calls end with the cut of a torn tail at a start, whose
// failure costs nothing but the segment's room.
func cutsTail(before []call) bool {
	last := before[len(before)-1]
	return last.name == "ftruncate" && !strings.Contains(last.line, ", 0)")
}
