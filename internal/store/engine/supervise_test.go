package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gputally/gputally/internal/store/engine"
	"github.com/gputally/gputally/internal/store/storetest"
)

// shortDir is a temporary directory whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gputally-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func helperOptions(t *testing.T, dir string) engine.SuperviseOptions {
	t.Helper()
	library := storetest.Library(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	env := append(os.Environ(), helperEnv+"="+filepath.Join(dir, "data"), helperSocketEnv+"="+socket,
		engine.LibraryEnv+"="+library)
	return engine.SuperviseOptions{Command: []string{executable}, Env: env, Socket: socket}
}

func supervise(t *testing.T, o engine.SuperviseOptions) *engine.Supervisor {
	t.Helper()
	s, err := engine.Supervise(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// ask posts a statement to the helper; the text is its answer.
func ask(client *http.Client, statement string) (string, error) {
	response, err := client.Post("http://engine/", "text/plain", strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return strings.TrimSpace(string(text)), err
}

func TestCrashedHelperIsStartedAgain(t *testing.T) {
	o := helperOptions(t, shortDir(t))
	s := supervise(t, o)
	for want := int64(1); want <= 2; want++ {
		before := s.PID()
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return s.Restarts() >= want && s.PID() != before })
		await(t, func() bool { _, err := ask(socketClient(o.Socket), "SELECT 1"); return err == nil })
	}
	if got := s.Restarts(); got != 2 {
		t.Errorf("restarts: %d, want 2", got)
	}
}

func TestStopReleasesTheDirectory(t *testing.T) {
	o := helperOptions(t, shortDir(t))
	for range 2 {
		s, err := engine.Supervise(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := s.Restarts(); got != 0 {
			t.Errorf("restarts of a helper that was stopped: %d, want 0", got)
		}
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	o := helperOptions(t, shortDir(t))
	s, err := engine.Supervise(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	client, left := socketClient(o.Socket), make(chan error, 1)
	go func() {
		_, err := ask(client, "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 42")
		left <- err
	}()
	await(t, func() bool {
		running, err := ask(client, "SELECT count() FROM system.processes WHERE query LIKE '%sipHash64%'")
		return err == nil && running == "2"
	})
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-left; err == nil {
		t.Error("the endless statement was answered")
	}
}

func TestHelperThatCannotStartSaysWhy(t *testing.T) {
	o := helperOptions(t, shortDir(t))
	o.Env = append(o.Env, engine.LibraryEnv+"=/nonexistent/libchdb.so")
	_, err := engine.Supervise(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/libchdb.so") || !strings.Contains(err.Error(),
		"make build") {
		t.Errorf("error: %v, want the library's path and `make build`", err)
	}
	o.Command = []string{"/nonexistent/gputally"}
	if _, err := engine.Supervise(t.Context(), o); err == nil || !strings.Contains(err.Error(), "/nonexistent/gputally") {
		t.Errorf("error: %v, want the command's path", err)
	}
}

func TestHelperEndsWithItsStandardInput(t *testing.T) {
	o := helperOptions(t, shortDir(t))
	cmd := exec.Command(o.Command[0])
	cmd.Env = o.Env
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { _, err := ask(socketClient(o.Socket), "SELECT 1"); return err == nil })
	info, err := os.Stat(o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the socket: %o, want 600", got)
	}
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("helper: %v, want a clean end", err)
	}
}

// Every batch that was acknowledged is there, whole, after a SIGKILL in the
// midst of inserts; one that wasn't is there whole or not at all.
func TestKilledHelperLosesNoAcknowledgedBatch(t *testing.T) {
	const rounds, writers, rowsPerBatch = 2, 4, 1000
	o := helperOptions(t, shortDir(t))
	s := supervise(t, o)
	client := socketClient(o.Socket)
	if _, err := ask(client,
		"CREATE TABLE default.t (batch UInt64, n UInt64) ENGINE = MergeTree ORDER BY batch"); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]bool{}
	for round := range rounds {
		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{})
		for w := range writers {
			wg.Go(func() {
				for i := 0; ; i++ {
					batch := strconv.Itoa(round*1_000_000 + w*100_000 + i)
					if _, err := ask(client,
						"INSERT INTO default.t FORMAT TSV\n"+strings.Repeat(batch+"\t1\n", rowsPerBatch)); err != nil {
						return
					}
					mu.Lock()
					acknowledged[batch] = true
					if len(acknowledged) == (round+1)*40 {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		await(t, func() bool { _, err := ask(client, "SELECT 1"); return err == nil })
		checkBatches(t, client, acknowledged, rowsPerBatch)
		// From here on the next round's count starts where this one ended.
		for len(acknowledged) > (round+1)*40 {
			for batch := range acknowledged {
				delete(acknowledged, batch)
				break
			}
		}
	}
}

func checkBatches(t *testing.T, client *http.Client, acknowledged map[string]bool, rows int) {
	t.Helper()
	text, err := ask(client, "SELECT batch, count() FROM default.t GROUP BY batch")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		batch, count, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if count != strconv.Itoa(rows) {
			t.Errorf("batch %s has %s rows, want %d", batch, count, rows)
		}
		found[batch] = true
	}
	for batch := range acknowledged {
		if !found[batch] {
			t.Errorf("batch %s was acknowledged and is lost", batch)
		}
	}
}
