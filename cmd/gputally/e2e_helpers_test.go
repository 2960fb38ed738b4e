package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/lifecycle"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/wire"
)

// newDataDir names a data directory that does not exist yet.
func newDataDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}

// someOf are all names, or in a short run a third of them, beginning with a random
// one that is logged.
func someOf(t *testing.T, names []string) (some []string) {
	t.Helper()
	if !testing.Short() {
		return names
	}
	const step = 3
	from := rand.IntN(step)
	t.Logf("every %d. of %d cases from %d on", step, len(names), from)
	for i := from; i < len(names); i += step {
		some = append(some, names[i])
	}
	return some
}

// emptyDataDir is a data directory with empty tables and topics.
func emptyDataDir(t *testing.T) string {
	t.Helper()
	return prepared(t, "empty", func(data string) { withLedger(t, data, func(*pipeline) {}) })
}

// copyOf is a data directory like another one, which nobody may be using.
func copyOf(t *testing.T, data string) string {
	t.Helper()
	fresh := newDataDir(t)
	if err := os.CopyFS(fresh, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	return fresh
}

// preparedDirs are data directories that tests take copies of, by name. TestMain
// removes them.
var preparedDirs struct {
	sync.Mutex
	parent string
	byName map[string]string
}

// prepared is a copy of a data directory that fill has made for the first test
// that wants it.
func prepared(t *testing.T, name string, fill func(data string)) string {
	t.Helper()
	preparedDirs.Lock()
	defer preparedDirs.Unlock()
	if preparedDirs.byName[name] == "" {
		if preparedDirs.parent == "" {
			parent, err := os.MkdirTemp("", "gputally-prepared-")
			if err != nil {
				t.Fatal(err)
			}
			preparedDirs.parent, preparedDirs.byName = parent, map[string]string{}
		}
		data := filepath.Join(preparedDirs.parent, name)
		fill(data)
		if t.Failed() {
			t.FailNow()
		}
		preparedDirs.byName[name] = data
	}
	return copyOf(t, preparedDirs.byName[name])
}

// removePrepared removes what prepared made.
func removePrepared() {
	if preparedDirs.parent != "" {
		_ = os.RemoveAll(preparedDirs.parent) // a folder of temporary files
	}
}

// writeLines makes a file of lines in a folder of its own.
func writeLines(t *testing.T, lines []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batches.jsonl")
	writeFile(t, path, strings.Join(lines, "\n")+"\n")
	return path
}

// mustImport imports a file without bad lines.
func mustImport(t *testing.T, data, file string) {
	t.Helper()
	if got := invoke(t, "import", "batches", file, "--data", data); got.Code != exitOK {
		t.Fatalf("import %s: got %+v", file, got)
	}
}

// usageCSV is the whole ledger by hour, GPU and tenant.
func usageCSV(t *testing.T, data string, flags ...string) string {
	t.Helper()
	got := invoke(t, append([]string{"usage", "--data", data, "--by", "hour,gpu,tenant", "--output", "csv"}, flags...)...)
	if got.Code != exitOK {
		t.Fatalf("usage: got %+v", got)
	}
	return got.Stdout
}

// withLine puts a line in its place among sorted ones, below the heading.
func withLine(table, line string) string {
	lines := append(slices.Collect(strings.Lines(table)), line)
	slices.Sort(lines[1:])
	return strings.Join(lines, "")
}

// report is what verify says, by the checks' names.
type report struct {
	code   int
	checks map[string]check.Result
}

func verifyLedger(t *testing.T, data string) report {
	t.Helper()
	got := invoke(t, "verify", "--data", data, "--output", "json")
	var printed struct{ Checks []check.Result }
	if err := json.Unmarshal([]byte(got.Stdout), &printed); err != nil {
		t.Fatalf("verify: got %+v: %v", got, err)
	}
	r := report{got.Code, map[string]check.Result{}}
	for _, c := range printed.Checks {
		r.checks[c.Name] = c
	}
	return r
}

// failed are the names of the checks that failed, ascending.
func (r report) failed() []string {
	failed := []string{}
	for _, name := range []string{"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9"} {
		if c, ok := r.checks[name]; !ok || !c.OK {
			failed = append(failed, name)
		}
	}
	return failed
}

// findings are what a check found, one per line.
func (r report) findings(name string) string { return strings.Join(r.checks[name].Findings, "\n") }

func mustVerify(t *testing.T, data string) report {
	t.Helper()
	r := verifyLedger(t, data)
	if failed := r.failed(); r.code != exitOK || len(failed) > 0 {
		t.Fatalf("verify: got code %d, failed %v: %+v", r.code, failed, r.checks)
	}
	return r
}

// mustVerifyLive is mustVerify of a directory that data come into: a check that
// reads two tables a moment apart may see a slot in one of them alone, so that
// one attempt of ten must hold.
func mustVerifyLive(t *testing.T, data string) {
	t.Helper()
	for range 9 {
		if r := verifyLedger(t, data); r.code == exitOK {
			return
		}
	}
	mustVerify(t, data)
}

// withLedger opens a data directory as a command does, with its broker, and
// closes it again.
func withLedger(t *testing.T, data string, do func(p *pipeline)) {
	t.Helper()
	s := newSession(t)
	a, err := s.openOrCreate(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context(), lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	defer func() {
		if err := errors.Join(group.Stop(), a.Close()); err != nil {
			t.Errorf("close ledger: %v", err)
		}
	}()
	p, err := s.newPipeline(t.Context(), a, group)
	if err != nil {
		t.Fatal(err)
	}
	do(p)
}

// openRun lets everybody send simulated batches of a cluster, of any time.
func openRun(t *testing.T, data, cluster, slot string) {
	t.Helper()
	mustInvoke(t, "import", "runs", "open", "--data", data, "--cluster", cluster, "--sends", "simulated", "--collector", "*", "--slot", slot, "--from", "1971-01-01", "--to", "2100-01-01")
}

// produce writes messages into the samples topic, where nothing but ingest
// stands between them and the ledger, and waits until it has read them.
func produce(t *testing.T, data string, msgs []broker.Message) {
	t.Helper()
	withLedger(t, data, func(p *pipeline) {
		if err := p.client.Producer().Produce(t.Context(), msgs); err != nil {
			t.Fatal(err)
		}
		if p.access.dir != nil {
			if err := p.startIngest(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.settle(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

// messagesOf encodes batches as a collector does.
func messagesOf(t *testing.T, batches ...*wire.Batch) []broker.Message {
	t.Helper()
	var msgs []broker.Message
	for _, b := range batches {
		value, err := wire.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, broker.Message{Topic: broker.TopicSamples, Key: []byte(b.Node), Value: value})
	}
	return msgs
}

// readTopic reads all that a topic holds, as a group of its own.
func readTopic(t *testing.T, data, topic string) (msgs []broker.Message) {
	t.Helper()
	const group = "reader"
	withLedger(t, data, func(p *pipeline) {
		consumer, err := p.client.Consumer(group, topic, broker.ConsumerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.group.OnStop("reader", consumer.Close)
		offsets, err := p.client.Offsets(t.Context(), topic, group)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, o := range offsets {
			want += int(o.Last - o.First)
		}
		for len(msgs) < want {
			more, err := consumer.Fetch(t.Context(), want-len(msgs), time.Minute)
			if err != nil || len(more) == 0 {
				t.Fatalf("read %s: got %d of %d messages, %v", topic, len(msgs), want, err)
			}
			msgs = append(msgs, more...)
		}
	})
	return msgs
}

func headerOf(m broker.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// alter changes tables behind gputally's back. The statements must wait for
// their mutations.
func alter(t *testing.T, data string, statements ...string) {
	t.Helper()
	withTables(t, data, func(db *store.DB) {
		for _, statement := range statements {
			if err := db.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	})
}

func withTables(t *testing.T, data string, do func(db *store.DB)) {
	t.Helper()
	a, err := newSession(t).openStore(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Errorf("close ledger: %v", err)
		}
	}()
	do(a.db)
}

// logBook is a service's log, which can be waited for.
type logBook struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *logBook) read() (text string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.changed
}

// patience bounds every wait: what takes longer will not come.
const patience = 60 * time.Second

// await waits for a line of the log that matches, and returns its groups.
func (l *logBook) await(t *testing.T, line *regexp.Regexp) []string {
	t.Helper()
	timer := clock.Real().NewTimer(patience)
	defer timer.Stop()
	for {
		text, changed := l.read()
		if found := line.FindStringSubmatch(text); found != nil {
			return found
		}
		select {
		case <-changed:
		case <-timer.C():
			t.Fatalf("no line like %s in the log:\n%s", line, tailOf(text))
		}
	}
}

// startLogged runs a service until it listens, as start does, and keeps its log.
func startLogged(t *testing.T, args ...string) (service, *logBook) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := &logBook{changed: make(chan struct{})}
	ended := make(chan int, 1)
	go func() {
		code := Run(ctx, append(args, "--listen", "127.0.0.1:0"), strings.NewReader(""), io.Discard, log)
		_, _ = log.Write([]byte("msg=listening address=ended\n")) // wakes who still waits
		ended <- code
	}()
	stop := sync.OnceValue(func() int { cancel(); return <-ended })
	t.Cleanup(func() {
		stop()
		if text, _ := log.read(); t.Failed() {
			t.Logf("log of %v:\n%s", args, tailOf(text))
		}
	})
	address := log.await(t, listening)[1]
	if address == "ended" {
		t.Fatalf("gputally %s: ended with %d before it listened", strings.Join(args, " "), stop())
	}
	return service{"http://" + address, stop}, log
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !holds() {
		if err := clock.Sleep(ctx, clock.Real(), 100*time.Millisecond); err != nil {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
