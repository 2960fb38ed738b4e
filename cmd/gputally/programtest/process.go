package programtest

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/store/storetest"
)

// ProgramEnv is the environment variable with the path of a program that is already
// built, for tests that run tests.
const ProgramEnv = "GPUTALLY_TEST_PROGRAM"

// RunPatience is the limit of a whole run of the program on a busy machine.
const RunPatience = 3 * time.Minute

// Program returns the path of the program, which is built once, without the race
// detector. Main removes it.
var Program = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(ProgramEnv); built != "" {
		return built, nil
	}
	dir, err := os.MkdirTemp("", "gputally-program-")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "gputally")
	if out, err := exec.Command("go", "build", "-o", path,
		"github.com/gputally/gputally/cmd/gputally").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

var programDir string

// removeProgram removes what Program built.
func removeProgram() {
	if programDir != "" {
		_ = os.RemoveAll(programDir) // a folder of temporary files
	}
}

// Process is a gputally that can be killed.
type Process struct {
	Data   string
	Pid    int
	Stdout *LogBook
	Stderr *LogBook
	ended  chan struct{}
	Code   int // -1: killed
}

// NewLogBook makes an empty log.
func NewLogBook() *LogBook { return &LogBook{changed: make(chan struct{})} }

// Spawn starts the program on a data directory. It is killed if it still runs when
// the test ends.
func Spawn(t *testing.T, data string, args ...string) *Process {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Data: data, Stdout: NewLogBook(), Stderr: NewLogBook(), ended: make(chan struct{})}
	cmd := exec.Command(path, append(args, "--data", data)...)
	cmd.Env = append(os.Environ(), engine.LibraryEnv+"="+storetest.Library(t))
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.Pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // the exit code has the error
		p.Code = cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		if p.Running() {
			p.signal(t, syscall.SIGKILL)
			<-p.ended
		}
		if t.Failed() {
			text, _ := p.Stderr.Read()
			t.Logf("gputally %s ended with %d:\n%s", strings.Join(args, " "), p.Code, TailOf(text))
		}
	})
	return p
}

// TailOf returns the end of a log.
func TailOf(text string) string {
	const most = 8 << 10
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *Process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("signal %v to process %d: %v", s, p.Pid, err)
	}
}

// Wait returns the exit code.
func (p *Process) Wait(t *testing.T) int {
	t.Helper()
	timer := clock.Real().NewTimer(RunPatience)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C():
		t.Fatalf("process %d still runs after %s", p.Pid, RunPatience)
	}
	return p.Code
}

// Interrupt stops it as Ctrl-C does.
func (p *Process) Interrupt(t *testing.T) int {
	t.Helper()
	p.signal(t, syscall.SIGINT)
	return p.Wait(t)
}

// Kill sends SIGKILL and waits until the engine has ended, too.
func (p *Process) Kill(t *testing.T) {
	t.Helper()
	engines := ChildrenOf(p.Pid)
	p.signal(t, syscall.SIGKILL)
	if code := p.Wait(t); code != -1 {
		t.Fatalf("the process had ended with %d before it was killed", code)
	}
	for _, pid := range engines {
		Eventually(t, fmt.Sprintf("engine %d ends with its parent", pid), func() bool { return !alive(pid) })
	}
}

// KillEngine kills only the helper process; false: there was none.
func (p *Process) KillEngine(t *testing.T) bool {
	t.Helper()
	found := ChildrenOf(p.Pid)
	if len(found) != 1 || syscall.Kill(found[0], syscall.SIGKILL) != nil {
		return false
	}
	Eventually(t, fmt.Sprintf("engine %d is gone", found[0]), func() bool { return !alive(found[0]) })
	return true
}

// ChildrenOf lists a process's children, as Linux keeps them per thread.
func ChildrenOf(pid int) (children []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// alive reports whether a process runs; a zombie doesn't.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// Metric returns the sum of a metric's series on the process's /metrics; false: the
// process doesn't serve yet, or no longer.
func (p *Process) Metric(t *testing.T, name string) (sum float64, ok bool) {
	t.Helper()
	run, err := datadir.ReadRun(p.Data)
	if err != nil || run.PID != p.Pid || !p.Running() {
		return 0, false
	}
	client := &http.Client{
		Timeout: Patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", run.HTTPSocket) // there may be no port
		}},
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://localhost/metrics")
	if err != nil {
		return 0, false // it has just ended
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(series, "{"); base != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metric %s: %v", lines.Text(), err)
		}
		sum += v
	}
	return sum, true
}

// CloseLook is the polling interval of a progress on which a kill depends: the run
// must not get much further between two polls.
const CloseLook = 20 * time.Millisecond

// Reaches waits until a metric of the process is at least least.
func (p *Process) Reaches(t *testing.T, name string, least float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		if got, ok := p.Metric(t, name); ok && got >= least {
			return
		}
		if !p.Running() {
			t.Fatalf("the process ended with %d before %s reached %v", p.Code, name, least)
		}
		if err := clock.Sleep(ctx, clock.Real(), CloseLook); err != nil {
			t.Fatalf("%s has not reached %v within %s", name, least, Patience)
		}
	}
}

// Standing is the usage and the invoices of a ledger, as commands print them.
type Standing struct {
	Usage    string
	Invoices map[string]string // by tenant
}

// AskStanding serves a data directory with the program and queries it. Every check
// must pass.
func AskStanding(t *testing.T, data, period string) Standing {
	t.Helper()
	server := Spawn(t, data, "standalone", "--listen", "127.0.0.1:0")
	server.Reaches(t, "gputally_ledger_last_pass_timestamp_seconds", 1)
	ask := func(args ...string) string {
		t.Helper()
		got := Invoke(t, append(args, "--data", data)...)
		if got.Code != cli.ExitOK {
			t.Fatalf("gputally %s: got %+v", strings.Join(args, " "), got)
		}
		return got.Stdout
	}
	ask("verify")
	s := Standing{
		Usage:    ask("usage", "--by", "hour,gpu,leaf,tenant,project,workload", "--output", "csv"),
		Invoices: map[string]string{},
	}
	list, err := csv.NewReader(strings.NewReader(ask("invoice", "list", "--period", period, "--output", "csv"))).ReadAll()
	if err != nil || len(list) < 2 {
		t.Fatalf("invoices of %s: %v, %v; want some", period, list, err)
	}
	for _, row := range list[1:] {
		s.Invoices[row[2]] = ask("invoice", "show", "--period", period, "--tenant", row[2], "--output", "json")
	}
	if code := server.Interrupt(t); code != cli.ExitOK {
		t.Errorf("standalone on %s ended with %d", data, code)
	}
	return s
}
