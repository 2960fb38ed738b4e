package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/storetest"
)

// smallDiskEnv tells the test binary that it may mount.
const smallDiskEnv = "GPUTALLY_TEST_SMALL_DISK"

// diskBytes is the size of the file system that a part of a data directory is
// put on.
const diskBytes = 64 << 20

// oneDay is the demo that meets a full disk, and that is killed in a short run.
var oneDay = []string{"demo", "--once", "--days", "1", "--seed", "7", "--listen", "127.0.0.1:0"}

// TestFullDisk runs testFullDisk in a namespace of its own, where an ordinary
// user may mount a small file system and none outlives the test.
func TestFullDisk(t *testing.T) {
	if os.Getenv(smallDiskEnv) != "" {
		testFullDisk(t)
		return
	}
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
	storetest.Library(t)
	path, err := programtest.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDiskEnv+"=1", programtest.ProgramEnv+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended):
		refuse(t, err)
	case err != nil:
		t.Errorf("in a namespace: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("in a namespace:\n%s", out)
	}
}

// refuse skips the test where mounting isn't permitted; CI has to permit it.
func refuse(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Skipf("needs a namespace in which it may mount: %v", err)
}

func testFullDisk(t *testing.T) {
	probe := smallDisk(t, programtest.NewDataDir(t), "probe") // skips here rather than after a run
	probe.leave(t, diskBytes)
	undisturbed := programtest.NewDataDir(t)
	if code := programtest.Spawn(t, undisturbed, oneDay...).Wait(t); code != cli.ExitOK {
		t.Fatalf("an undisturbed demo ended with %d", code)
	}
	month := demoMonth(t, undisturbed)
	want := programtest.AskStanding(t, undisturbed, month)
	for _, part := range []fullPart{
		{
			datadir.SpoolDir, 1 << 20, spooled,
			regexp.MustCompile(`appending to the spool failed, trying again.*/spool/sim/\S+ no space left on device`),
		},
		{
			datadir.BrokerDir, 1 << 20, "gputally_collector_messages_published_total",
			regexp.MustCompile(`persist batch gputally.samples.*/kafka/\S+ no space left on device`),
		},
		{
			datadir.EngineDir, 6 << 20, ingested,
			regexp.MustCompile(`step failed, ingest will retry it.*insert into \w+: ClickHouse code 243.*NOT_ENOUGH_SPACE`),
		},
	} {
		t.Run(part.dir, func(t *testing.T) {
			data := programtest.NewDataDir(t)
			part.endure(t, data, smallDisk(t, data, part.dir))
			if diff := cmp.Diff(want, programtest.AskStanding(t, data, month)); diff != "" {
				t.Errorf("ledger and invoices (-undisturbed +full disk):\n%s", diff)
			}
		})
	}
	t.Run("import", testImportIntoFullSpool)
}

// fullPart is a part of the data directory whose disk is too small.
type fullPart struct {
	dir       string
	roomBytes int64          // too little for a day
	progress  string         // the metric that stands still when it is full
	says      *regexp.Regexp // the log line that names what is full
}

// endure takes a demo through a full disk, some room, a full disk again, a
// kill, a start on the full disk and an interrupt there, to the end that it
// reaches with room.
func (f fullPart) endure(t *testing.T, data string, disk *ballast) {
	t.Helper()
	disk.leave(t, f.roomBytes)
	args := append(slowIngest(t), oneDay...)
	p := programtest.Spawn(t, data, args...)
	stuck := awaitFull(p, t, f, 0)
	disk.leave(t, f.roomBytes)
	p.Reaches(t, f.progress, stuck+1)
	log, _ := p.Stderr.Read()
	awaitFull(p, t, f, len(log))
	p.Kill(t)
	again := programtest.Spawn(t, data, args...)
	programtest.Eventually(t, "it says that the disk is full", func() bool {
		log, _ := again.Stderr.Read()
		return f.says.MatchString(log) || strings.Contains(log, "no space left on device")
	})
	if code := again.Interrupt(t); code != cli.ExitInterrupted && code != cli.ExitEnvironment {
		t.Errorf("interrupted on a full disk, it ended with %d", code)
	}
	disk.leave(t, diskBytes)
	if code := programtest.Spawn(t, data, args...).Wait(t); code != cli.ExitOK {
		t.Errorf("with room again, it ended with %d", code)
	}
}

// awaitFull waits for the line that says what is full, after the first bytes of
// the log. The process has to stay up, and stand still at the value returned.
func awaitFull(p *programtest.Process, t *testing.T, f fullPart, from int) (stuck float64) {
	t.Helper()
	programtest.Eventually(t, fmt.Sprintf("a line like %s", f.says), func() bool {
		if !p.Running() {
			t.Fatalf("a full disk ended the process with %d", p.Code)
		}
		log, _ := p.Stderr.Read()
		return f.says.MatchString(log[from:])
	})
	stuck, ok := p.Metric(t, f.progress)
	if !ok {
		t.Fatalf("with a full disk, %s is not served", f.progress)
	}
	return stuck
}

// ballast is a file that keeps a file system full.
type ballast struct{ file *os.File }

// smallDisk puts a part of a data directory on a file system of its own.
func smallDisk(t *testing.T, data, part string) *ballast {
	t.Helper()
	dir, err := datadir.Open(data, datadir.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(data, part)
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		refuse(t, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	file, err := os.Create(filepath.Join(at, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // nothing of it is kept
	return &ballast{file}
}

// leave makes the ballast as large as leaves so many bytes free, or all that
// it takes.
func (b *ballast) leave(t *testing.T, freeBytes int64) {
	t.Helper()
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(b.file.Fd()), &disk); err != nil {
		t.Fatal(err)
	}
	info, err := b.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	size := max(0, info.Size()+int64(disk.Bavail)*disk.Bsize-freeBytes)
	if err := b.file.Truncate(min(size, info.Size())); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 64<<10)
	for at := info.Size(); at < size; at += int64(len(chunk)) {
		if _, err := b.file.WriteAt(chunk[:min(size-at, int64(len(chunk)))], at); err != nil {
			t.Fatal(err)
		}
	}
}

// dayOfBatches are JSON lines of one node with eight GPUs, a slot a minute.
func dayOfBatches() (lines []string) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for slot := range 24 * 60 {
		var gpus []string
		for i := range 8 {
			gpus = append(gpus, fmt.Sprintf(`{"uuid":"GPU-%d","model":"NVIDIA H100 80GB HBM3","slices":7,"mig":false,`+
				`"leaves":[{"id":"gpu","slices":7,"sm_active":%g}],"holds":[{"leaf":"gpu","owner":{"namespace":"team-%d","pod":"p"}}],`+
				`"power_watts":500,"idle_watts":80}`, i, 0.1*float64(1+(slot+i)%9), i%3))
		}
		lines = append(lines,
			fmt.Sprintf(`{"cluster":"k","node":"n1","slot":"%s","slot_ms":60000,"collector":"c1","boot_ms":1000,"seq":%d,"gpus":[%s]}`,
				start.Add(time.Duration(slot)*time.Minute).Format(time.RFC3339), slot, strings.Join(gpus, ",")))
	}
	return lines
}

// testImportIntoFullSpool: an import that finds no room says so and exits with
// 3; what it left behind is consistent, and the next one brings everything.
func testImportIntoFullSpool(t *testing.T) {
	file := programtest.WriteLines(t, dayOfBatches())
	undisturbed, data := programtest.NewDataDir(t), programtest.NewDataDir(t)
	programtest.MustImport(t, undisturbed, file)
	disk := smallDisk(t, data, datadir.SpoolDir)
	disk.leave(t, 256<<10)
	got := programtest.Invoke(t, "import", "batches", file, "--data", data)
	if got.Code != cli.ExitEnvironment || !strings.Contains(got.Stderr, "/spool/import/") || !strings.Contains(got.Stderr,
		"no space left on device") {
		t.Errorf("import into a full spool: got %+v, want %d and what is full", got, cli.ExitEnvironment)
	}
	if r := programtest.VerifyLedger(t, data); r.Code != cli.ExitOK { // no hour is there yet, so no invoice to prove
		t.Errorf("verify after it: got %+v", r)
	}
	disk.leave(t, diskBytes)
	programtest.MustImport(t, data, file)
	if diff := cmp.Diff(programtest.AskStanding(t, undisturbed, "2026-03"),
		programtest.AskStanding(t, data, "2026-03")); diff != "" {
		t.Errorf("ledger and invoices (-undisturbed +full disk):\n%s", diff)
	}
}
