package datadir

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/trust"
	"github.com/gputally/gputally/internal/unixsock"
)

var started = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func self() Holder { return Holder{Command: "gputally standalone", Started: started} }

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path, self())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestOpenNamesTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "data")
	first := open(t, path)
	_, err := Open(path, Holder{Command: "gputally usage"})
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("second open: got %v, want a LockedError", err)
	}
	want := LockedError{Path: path, Holder: Holder{PID: os.Getpid(), Command: "gputally standalone", Started: started}}
	if diff := cmp.Diff(want, *locked); diff != "" {
		t.Errorf("lock error (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), "gputally standalone") {
		t.Errorf("message %q does not name the holder's command", err)
	}
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	open(t, path)
}

func TestM8OpenFollowsNoLockThatSomebodyLaidThere(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, "important")
	path := t.TempDir()
	if err := os.Symlink(target, filepath.Join(path, lockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, self()); err == nil {
		t.Error("a LOCK that is a symbolic link: opened, want an error")
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "important" {
		t.Errorf("the link's target contains %q, %v", text, err)
	}
}

func TestM8OpenRefusesADirectoryThatOthersWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	var refused *trust.Error
	if _, err := Open(path, self()); !errors.As(err, &refused) || refused.Path != path {
		t.Errorf("open: %v, want an error that names %s", err, path)
	}
}

func TestOpenChecksTheFormat(t *testing.T) {
	for text, want := range map[string]string{
		"gputally data directory, format 2\n":  "its format 2 is newer than 1",
		"gputally data directory, format x\n":  `contains "gputally data directory, format x"`,
		"gpuledger data directory, format 1\n": "gpuledger wrote it",
		"":                                     `contains ""`,
	} {
		path := t.TempDir()
		write(t, filepath.Join(path, formatName), text)
		_, err := Open(path, self())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %q: got %v, want %q in it", text, err, want)
		}
		data, err := os.ReadFile(filepath.Join(path, formatName))
		if err != nil || string(data) != text {
			t.Errorf("format %q was changed to %q (%v)", text, data, err)
		}
	}
}

func TestOpenReleasesTheLockOfARefusedDirectory(t *testing.T) {
	path := t.TempDir()
	write(t, filepath.Join(path, formatName), formatPrefix+"2\n")
	if _, err := Open(path, self()); err == nil {
		t.Fatal("a newer format was opened")
	}
	write(t, filepath.Join(path, formatName), formatPrefix+"1\n")
	open(t, path)
}

func TestOpenLeavesForeignFoldersAlone(t *testing.T) {
	path := t.TempDir()
	write(t, filepath.Join(path, "thesis.tex"), "")
	_, err := Open(path, self())
	if err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("open a foreign folder: got %v", err)
	}
	if class := fault.Of(err); class != fault.Environment {
		t.Errorf("open a foreign folder: class %d, want %d", class, fault.Environment)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 1 {
		t.Errorf("files were added: %v, %v", entries, err)
	}
	fresh := t.TempDir()
	if err := os.Mkdir(filepath.Join(fresh, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(fresh, "gputally.yaml"), "")
	open(t, fresh)
}

func TestRunFileLivesWithItsWriter(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "data"))
	want := Run{EngineSocket: "/tmp/s", BrokerAddress: "127.0.0.1:9092", HTTPAddress: "127.0.0.1:8080"}
	if err := d.Publish(want); err != nil {
		t.Fatalf("publish: %v", err)
	}
	got, err := ReadRun(d.Path())
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	want.Holder, want.TempDir = Holder{os.Getpid(), "gputally standalone", started}, d.TempDir()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run.json (-want +got):\n%s", diff)
	}
	info, err := os.Stat(d.TempDir())
	if err != nil || info.Mode().Perm() != 0o700 || len(d.TempDir()) > maxSocketDir {
		t.Errorf("temporary folder %s: %v, %v; want it private and short", d.TempDir(), info, err)
	}
	if err := d.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := ReadRun(d.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("run.json after close: got %v", err)
	}
	if _, err := os.Stat(d.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("temporary folder after close: got %v", err)
	}
}

func TestTempDirIsShortWhateverTheSystemSays(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), strings.Repeat("long", 30)))
	dir := open(t, filepath.Join(t.TempDir(), "data")).TempDir()
	if len(dir) > maxSocketDir {
		t.Errorf("temporary folder %s has %d bytes, want at most %d", dir, len(dir), maxSocketDir)
	}
}

// A run.json names a directory that Open removes: only sockets of a holder of the same data directory that has ended.
func TestOpenRemovesOnlyItsFormerHoldersSockets(t *testing.T) {
	killed := open(t, filepath.Join(t.TempDir(), "data")) // until its lock is released below
	alive := open(t, filepath.Join(t.TempDir(), "alive"))
	socketIn(t, killed.TempDir(), false)
	answering, err := os.MkdirTemp("", killed.tempPrefix)
	if err != nil {
		t.Fatal(err)
	}
	socketIn(t, answering, true)
	kept, err := os.MkdirTemp("", killed.tempPrefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(os.RemoveAll(answering), os.RemoveAll(kept)) })
	socketIn(t, kept, false)
	write(t, filepath.Join(kept, "thesis.tex"), "")
	link := filepath.Join(t.TempDir(), killed.tempPrefix+"link")
	if err := os.Symlink(alive.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	socketIn(t, alive.TempDir(), false) // nobody answers while an engine restarts
	if err := killed.lock.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		temp string
		left []string
	}{
		"of the killed holder": {killed.TempDir(), nil},
		"somebody answers":     {answering, []string{"s"}},
		"a file":               {kept, []string{"thesis.tex"}},
		"of another directory": {alive.TempDir(), []string{"s"}},
		"a link to another's":  {link, []string{"s"}},
		"of no holder":         {t.TempDir(), []string{}},
		"none":                 {"", nil},
		"relative":             {filepath.Base(alive.TempDir()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			run, err := json.Marshal(Run{TempDir: c.temp})
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(killed.Path(), runName), string(run))
			if err := open(t, killed.Path()).Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.left, namesIn(t, c.temp)); diff != "" {
				t.Errorf("left in %s (-want +got):\n%s", c.temp, diff)
			}
		})
	}
}

// A copy of a data directory that is in use has the run.json of the process that uses the original.
func TestOpenOfACopyLeavesTheOriginalsSockets(t *testing.T) {
	original := open(t, filepath.Join(t.TempDir(), "data"))
	if err := original.Publish(Run{}); err != nil {
		t.Fatal(err)
	}
	socketIn(t, original.TempDir(), false)
	path := t.TempDir()
	if err := os.CopyFS(path, os.DirFS(original.Path())); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"s"}, namesIn(t, original.TempDir())); diff != "" {
		t.Errorf("left of the original (-want +got):\n%s", diff)
	}
}

// socketIn makes the socket s in a directory; without its listener it is what a killed process leaves.
func socketIn(t *testing.T, dir string, answers bool) {
	t.Helper()
	l, err := unixsock.Listen(t.Context(), filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if !answers {
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		_ = l.Close()
	}
}

// namesIn lists a directory; nil: there is none.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestKilledHolderLeavesTheDirectoryUsable runs this binary as a second process.
func TestKilledHolderLeavesTheDirectoryUsable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if target := os.Getenv("GPUTALLY_TEST_HOLD"); target != "" {
		hold(t, target)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilledHolderLeavesTheDirectoryUsable$")
	cmd.Env = append(os.Environ(), "GPUTALLY_TEST_HOLD="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	var locked *LockedError
	if _, err := Open(path, self()); !errors.As(err, &locked) || locked.Holder.PID != cmd.Process.Pid {
		t.Errorf("open while the child holds it: got %v, want its pid %d", err, cmd.Process.Pid)
	}
	run, err := ReadRun(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	open(t, path)
	if _, err := ReadRun(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stale run.json: got %v, want it gone", err)
	}
	if _, err := os.Stat(run.TempDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stale folder %s: got %v, want it gone", run.TempDir, err)
	}
}

func hold(t *testing.T, path string) {
	d := open(t, path)
	if err := d.Publish(Run{EngineSocket: "/nowhere"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("held\n"); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done() // killed before
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
