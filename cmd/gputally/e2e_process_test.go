package main

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

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/store/storetest"
)

// programEnv names a program that is built already, for a test that runs tests.
const programEnv = "GPUTALLY_TEST_PROGRAM"

// runPatience bounds a whole run of the program, on a machine that has much
// else to do.
const runPatience = 3 * time.Minute

// program is the path of the real program, built once and without the race
// detector. TestMain removes it.
var program = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(programEnv); built != "" {
		return built, nil
	}
	dir, err := os.MkdirTemp("", "gputally-program-")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "gputally")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

var programDir string

// removeProgram removes what program built.
func removeProgram() {
	if programDir != "" {
		_ = os.RemoveAll(programDir) // a folder of temporary files
	}
}

// process is a gputally that can be killed.
type process struct {
	data   string
	pid    int
	stdout *logBook
	stderr *logBook
	ended  chan struct{}
	code   int // -1: killed
}

func newLogBook() *logBook { return &logBook{changed: make(chan struct{})} }

// spawn starts the program on a data directory. The test kills it where it
// still runs at the end.
func spawn(t *testing.T, data string, args ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{data: data, stdout: newLogBook(), stderr: newLogBook(), ended: make(chan struct{})}
	cmd := exec.Command(path, append(args, "--data", data)...)
	cmd.Env = append(os.Environ(), engine.LibraryEnv+"="+storetest.Library(t))
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // the code says it
		p.code = cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		if p.running() {
			p.signal(t, syscall.SIGKILL)
			<-p.ended
		}
		if t.Failed() {
			text, _ := p.stderr.read()
			t.Logf("gputally %s ended with %d:\n%s", strings.Join(args, " "), p.code, tailOf(text))
		}
	})
	return p
}

// tailOf keeps a log readable.
func tailOf(text string) string {
	const most = 8 << 10
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("signal %v to process %d: %v", s, p.pid, err)
	}
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	timer := clock.Real().NewTimer(runPatience)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C():
		t.Fatalf("process %d still runs after %s", p.pid, runPatience)
	}
	return p.code
}

// interrupt stops it as Ctrl-C does.
func (p *process) interrupt(t *testing.T) int {
	t.Helper()
	p.signal(t, syscall.SIGINT)
	return p.wait(t)
}

// kill ends it at whatever instruction it is, and sees that the engine follows.
func (p *process) kill(t *testing.T) {
	t.Helper()
	engines := childrenOf(p.pid)
	p.signal(t, syscall.SIGKILL)
	if code := p.wait(t); code != -1 {
		t.Fatalf("the process had ended with %d before it was killed", code)
	}
	for _, pid := range engines {
		eventually(t, fmt.Sprintf("engine %d ends with its parent", pid), func() bool { return !alive(pid) })
	}
}

// killEngine kills the helper process alone. It says false where there was none.
func (p *process) killEngine(t *testing.T) bool {
	t.Helper()
	found := childrenOf(p.pid)
	if len(found) != 1 || syscall.Kill(found[0], syscall.SIGKILL) != nil {
		return false
	}
	eventually(t, fmt.Sprintf("engine %d is gone", found[0]), func() bool { return !alive(found[0]) })
	return true
}

// childrenOf lists a process's children, as Linux keeps them per thread.
func childrenOf(pid int) (children []int) {
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

// alive says that a process runs; one that nobody has waited for doesn't.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// metric is the sum of a metric's series on the process's /metrics; false where
// it doesn't serve yet, or no longer.
func (p *process) metric(t *testing.T, name string) (sum float64, ok bool) {
	t.Helper()
	run, err := datadir.ReadRun(p.data)
	if err != nil || run.PID != p.pid || !p.running() {
		return 0, false
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", run.HTTPSocket) // there may be no port
	}}}
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

// closeLook is how often a progress is asked that a kill depends on: the run
// must not get much further meanwhile.
const closeLook = 20 * time.Millisecond

// reaches waits until a metric of the process is least or more.
func (p *process) reaches(t *testing.T, name string, least float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if got, ok := p.metric(t, name); ok && got >= least {
			return
		}
		if !p.running() {
			t.Fatalf("the process ended with %d before %s reached %v", p.code, name, least)
		}
		if err := clock.Sleep(ctx, clock.Real(), closeLook); err != nil {
			t.Fatalf("%s has not reached %v within %s", name, least, patience)
		}
	}
}

// standing is what people are told of a ledger, byte for byte.
type standing struct {
	Usage    string
	Invoices map[string]string // by tenant
}

// askStanding serves a data directory with the program and asks it: every
// check has to hold.
func askStanding(t *testing.T, data, period string) standing {
	t.Helper()
	server := spawn(t, data, "standalone", "--listen", "127.0.0.1:0")
	server.reaches(t, "gputally_ledger_last_pass_timestamp_seconds", 1)
	ask := func(args ...string) string {
		t.Helper()
		got := invoke(t, append(args, "--data", data)...)
		if got.Code != exitOK {
			t.Fatalf("gputally %s: got %+v", strings.Join(args, " "), got)
		}
		return got.Stdout
	}
	ask("verify")
	s := standing{Usage: ask("usage", "--by", "hour,gpu,leaf,tenant,project,workload", "--output", "csv"), Invoices: map[string]string{}}
	list, err := csv.NewReader(strings.NewReader(ask("invoice", "list", "--period", period, "--output", "csv"))).ReadAll()
	if err != nil || len(list) < 2 {
		t.Fatalf("invoices of %s: %v, %v; want some", period, list, err)
	}
	for _, row := range list[1:] {
		s.Invoices[row[2]] = ask("invoice", "show", "--period", period, "--tenant", row[2], "--output", "json")
	}
	if code := server.interrupt(t); code != exitOK {
		t.Errorf("standalone on %s ended with %d", data, code)
	}
	return s
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
