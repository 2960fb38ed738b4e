package programtest

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/commands"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/wire"
)

// NewDataDir returns the path of a data directory that doesn't exist yet.
func NewDataDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}

// SomeOf returns all names. In a short run it returns a third of them: every third name
// from a random one on, which is logged.
func SomeOf(t *testing.T, names []string) (some []string) {
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

// EmptyDataDir returns a data directory with empty tables and topics.
func EmptyDataDir(t *testing.T) string {
	t.Helper()
	return prepared(t, "empty", func(data string) { WithLedger(t, data, func(*app.Pipeline) {}) })
}

// CopyOf copies a data directory, which must not be in use.
func CopyOf(t *testing.T, data string) string {
	t.Helper()
	fresh := NewDataDir(t)
	if err := os.CopyFS(fresh, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	return fresh
}

// preparedDirs are data directories that tests copy, by name. Main removes them.
var preparedDirs struct {
	sync.Mutex
	parent string
	byName map[string]string
}

// prepared returns a copy of a data directory, which fill makes for the first test
// that needs it.
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
	return CopyOf(t, preparedDirs.byName[name])
}

// removePrepared removes the directories that prepared made.
func removePrepared() {
	if preparedDirs.parent != "" {
		_ = os.RemoveAll(preparedDirs.parent) // a folder of temporary files
	}
}

// WriteLines writes a file of lines into a new folder and returns its path.
func WriteLines(t *testing.T, lines []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batches.jsonl")
	placetest.WriteFile(t, path, strings.Join(lines, "\n")+"\n")
	return path
}

// MustImport imports a file without bad lines.
func MustImport(t *testing.T, data, file string) {
	t.Helper()
	if got := Invoke(t, "import", "batches", file, "--data", data); got.Code != cli.ExitOK {
		t.Fatalf("import %s: got %+v", file, got)
	}
}

// UsageCSV returns the whole ledger by hour, GPU and tenant.
func UsageCSV(t *testing.T, data string, flags ...string) string {
	t.Helper()
	got := Invoke(t, append([]string{"usage", "--data", data, "--by", "hour,gpu,tenant", "--output", "csv"}, flags...)...)
	if got.Code != cli.ExitOK {
		t.Fatalf("usage: got %+v", got)
	}
	return got.Stdout
}

// WithLine inserts a line into sorted lines, below the heading.
func WithLine(table, line string) string {
	lines := append(slices.Collect(strings.Lines(table)), line)
	slices.Sort(lines[1:])
	return strings.Join(lines, "")
}

// Report is verify's result, by the names of the checks.
type Report struct {
	Code   int
	Checks map[string]check.Result
}

// VerifyLedger runs verify on a data directory.
func VerifyLedger(t *testing.T, data string) Report {
	t.Helper()
	got := Invoke(t, "verify", "--data", data, "--output", "json")
	var printed struct{ Checks []check.Result }
	if err := json.Unmarshal([]byte(got.Stdout), &printed); err != nil {
		t.Fatalf("verify: got %+v: %v", got, err)
	}
	r := Report{got.Code, map[string]check.Result{}}
	for _, c := range printed.Checks {
		r.Checks[c.Name] = c
	}
	return r
}

// Failed returns the names of the checks that failed, ascending.
func (r Report) Failed() []string {
	failed := []string{}
	for _, name := range []string{"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9"} {
		if c, ok := r.Checks[name]; !ok || !c.OK {
			failed = append(failed, name)
		}
	}
	return failed
}

// Findings returns the findings of a check, one per line.
func (r Report) Findings(name string) string { return strings.Join(r.Checks[name].Findings, "\n") }

// MustVerify is VerifyLedger, and fails the test if a check fails.
func MustVerify(t *testing.T, data string) Report {
	t.Helper()
	r := VerifyLedger(t, data)
	if failed := r.Failed(); r.Code != cli.ExitOK || len(failed) > 0 {
		t.Fatalf("verify: got code %d, failed %v: %+v", r.Code, failed, r.Checks)
	}
	return r
}

// MustVerifyLive is MustVerify for a directory into which data is written meanwhile. A
// check that reads two tables one after the other may find a slot in only one of them,
// so one of ten attempts must succeed.
func MustVerifyLive(t *testing.T, data string) {
	t.Helper()
	for range 9 {
		if r := VerifyLedger(t, data); r.Code == cli.ExitOK {
			return
		}
	}
	MustVerify(t, data)
}

// WithLedger opens a data directory with its broker and the configured tenant mapping,
// as a service does, calls do, and closes it.
func WithLedger(t *testing.T, data string, do func(p *app.Pipeline)) {
	t.Helper()
	open := func(ctx context.Context, s *cli.Session) (*app.Access, error) {
		a, err := app.OpenOrCreate(ctx, s)
		if err == nil {
			a.Config.Ledger.KeepMapping = false
		}
		return a, err
	}
	err := app.WithPipeline(t.Context(), newSession(t, data), open, func(p *app.Pipeline) error { do(p); return nil })
	if err != nil && !t.Failed() {
		t.Fatal(err)
	}
}

// OpenRun opens a run that permits every collector to send simulated batches of a
// cluster, for any time.
func OpenRun(t *testing.T, data, cluster, slot string) {
	t.Helper()
	MustInvoke(t, "import", "runs", "open", "--data", data, "--cluster", cluster, "--sends", "simulated", "--collector",
		"*", "--slot", slot, "--from", "1971-01-01", "--to", "2100-01-01")
}

// Produce writes messages into the samples topic directly and waits until ingest has
// read them.
func Produce(t *testing.T, data string, msgs []broker.Message) {
	t.Helper()
	WithLedger(t, data, func(p *app.Pipeline) {
		if err := p.Client.Producer().Produce(t.Context(), msgs); err != nil {
			t.Fatal(err)
		}
		if err := p.StartIngestHere(); err != nil {
			t.Fatal(err)
		}
		if err := p.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// MessagesOf encodes batches as a collector does.
func MessagesOf(t *testing.T, batches ...*wire.Batch) []broker.Message {
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

// ReadTopic reads all messages of a topic.
func ReadTopic(t *testing.T, data, topic string) (msgs []broker.Message) {
	t.Helper()
	const group = "reader"
	WithLedger(t, data, func(p *app.Pipeline) {
		consumer, err := p.Client.Consumer(group, topic, broker.ConsumerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Group.OnStop("reader", consumer.Close)
		offsets, err := p.Client.Offsets(t.Context(), topic, group)
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

// HeaderOf returns the value of a message's header; empty: it has none.
func HeaderOf(m broker.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// Alter executes statements on the tables directly. They must wait for their
// mutations.
func Alter(t *testing.T, data string, statements ...string) {
	t.Helper()
	WithTables(t, data, func(db *store.DB) {
		for _, statement := range statements {
			if err := db.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	})
}

// WithTables opens the tables of a data directory.
func WithTables(t *testing.T, data string, do func(db *store.DB)) {
	t.Helper()
	a, err := app.OpenStore(t.Context(), newSession(t, data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Errorf("close ledger: %v", err)
		}
	}()
	do(a.DB)
}

// LogBook is a service's log; Await waits for a line of it.
type LogBook struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *LogBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *LogBook) Read() (text string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.changed
}

// Patience is the limit of every wait.
const Patience = 60 * time.Second

// Await waits for a log line that matches and returns the expression's groups.
func (l *LogBook) Await(t *testing.T, line *regexp.Regexp) []string {
	t.Helper()
	timer := clock.Real().NewTimer(Patience)
	defer timer.Stop()
	for {
		text, changed := l.Read()
		if found := line.FindStringSubmatch(text); found != nil {
			return found
		}
		select {
		case <-changed:
		case <-timer.C():
			t.Fatalf("no line like %s in the log:\n%s", line, TailOf(text))
		}
	}
}

// StartLogged is Start that also returns the service's log.
func StartLogged(t *testing.T, args ...string) (Service, *LogBook) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := &LogBook{changed: make(chan struct{})}
	ended := make(chan int, 1)
	go func() {
		code := commands.Run(ctx, append(args, "--listen", "127.0.0.1:0"), strings.NewReader(""), io.Discard, log)
		_, _ = log.Write([]byte("msg=listening address=ended\n")) // ends the waits for a line
		ended <- code
	}()
	stop := sync.OnceValue(func() int { cancel(); return <-ended })
	t.Cleanup(func() {
		stop()
		if text, _ := log.Read(); t.Failed() {
			t.Logf("log of %v:\n%s", args, TailOf(text))
		}
	})
	address := log.Await(t, listening)[1]
	if address == "ended" {
		t.Fatalf("gputally %s: ended with %d before it listened", strings.Join(args, " "), stop())
	}
	return Service{"http://" + address, stop}, log
}

// Eventually waits until a condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for !holds() {
		if err := clock.Sleep(ctx, clock.Real(), 100*time.Millisecond); err != nil {
			t.Fatalf("%s: not within %s", what, Patience)
		}
	}
}
