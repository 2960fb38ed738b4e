package api_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/billing/api"
	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/pythontest"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/usage/usagetest"
)

// childVar makes the test binary a process that serves the API: a broker's
// address, a store's socket and its database, with spaces between.
const childVar = "GPUTALLY_TEST_API_CHILD"

func TestMain(m *testing.M) {
	if where := os.Getenv(childVar); where != "" {
		if err := serveChild(context.Background(), strings.Fields(where)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild answers until its standard input closes; it prints where.
func serveChild(ctx context.Context, where []string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client := broker.NewClient(broker.Config{Brokers: []string{where[0]}}, log)
	db, err := store.Open(ctx, store.Options{Address: "unix://" + where[1], Database: where[2]})
	if err != nil {
		return err
	}
	decided, err := decisions.Open(ctx, client, decisions.Options{})
	if err != nil {
		return err
	}
	register, err := invoice.NewRegister(invoice.RegisterDeps{
		DB: db, Decisions: decided, Book: prices.Default(), Clock: clock.Real(),
		Closed: func(context.Context, time.Time) error { return nil },
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	err = api.Mount(mux, api.Deps{
		Explain: explained,
		DB:      db, Register: register, Decisions: decided, Clock: clock.Real(), Log: log, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent does
		_ = server.Close()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != http.ErrServerClosed { //nolint:errorlint // as documented
		return err
	}
	return nil
}

// child is a process that serves the API.
type child struct {
	url     string
	process *exec.Cmd
}

func startChild(t *testing.T, brokerAddr, socket, database string) *child {
	t.Helper()
	c := &child{process: exec.Command(os.Args[0])}
	c.process.Env = append(os.Environ(), childVar+"="+strings.Join([]string{brokerAddr, socket, database}, " "))
	c.process.Stderr = os.Stderr
	stdin, err := c.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.process.Wait() // a child that was killed says so
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("start a process with the API: %v", err)
	}
	c.url = "http://" + strings.TrimSpace(line)
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// fuzzConfig tells the fuzzer what a description can't: that a request of the
// right form may still name what is not there, or contradict itself (a range
// that ends before it begins, a cursor of another query).
const fuzzConfig = `
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "404", "409", "412", "422"]
`

// The fuzzer's own documents are those that the description's examples name, so
// that it comes to answers that are no problems, too.
func fuzzedLedger(t *testing.T) *fixture {
	t.Helper()
	db := storetest.Open(t)
	for i, tenant := range []string{"ml-train", "ml-serve", "=research", "ml/über"} {
		for hour := range 3 {
			g := gpuHour(tenant, uint64(20_000_000+i))
			g.Hour = time.Date(2026, 10, 1+i, hour, 0, 0, 0, time.UTC)
			usagetest.Insert(t, db, g)
		}
	}
	if err := db.Exec(t.Context(), insertAnomalySQL); err != nil {
		t.Fatal(err)
	}
	f := mount(t, db, prices.Default())
	for tenant, key := range map[string]string{"ml-train": "a", "=research": "b"} {
		if w := post(t, f, "/api/v1/invoices", key, `{"period":"2026-10","tenant":"`+tenant+`","who":"alice"}`); w.Code != http.StatusCreated {
			t.Fatalf("finalise = %d %s", w.Code, w.Body)
		}
	}
	late := gpuHour("ml-train", 1)
	late.Hour, late.Version = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), 2
	usagetest.Insert(t, db, late)
	return f
}

// exampleContent is the content that the description names as an example.
const exampleContent = "c3b6c210e10fe8779b9766633797de24d1657a3d32bc37b38b2cca9c735cfee9"

// tally counts answers by route and status.
type tally struct {
	http.Handler
	// content is what the description's example of a content stands for.
	content string
	mu      sync.Mutex
	codes   map[string]map[int]int
}

func (c *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("If-Match"), exampleContent) {
		r.Header.Set("If-Match", c.content)
	}
	recorder := &codeRecorder{ResponseWriter: w, code: http.StatusOK}
	c.Handler.ServeHTTP(recorder, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codes[r.Pattern] == nil {
		c.codes[r.Pattern] = map[int]int{}
	}
	c.codes[r.Pattern][recorder.code]++
}

type codeRecorder struct {
	http.ResponseWriter
	code int
}

func (w *codeRecorder) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *codeRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestFuzz runs schemathesis against the API by its own description, with every
// check that it has, stateful too: no answer is undocumented, none is a server's
// error, and every operation also gave an answer that is no problem.
func TestFuzz(t *testing.T) {
	fuzzer, _ := pythontest.Find(t, "schemathesis")
	ledger := fuzzedLedger(t)
	answers := &tally{
		Handler: ledger, codes: map[string]map[int]int{}, content: contentOf(t, ledger, `{"period":"2026-10","tenant":"ml-train"}`),
	}
	server := httptest.NewServer(answers)
	defer server.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(fuzzConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), fuzzer, "--config-file", filepath.Join(dir, "schemathesis.toml"),
		"run", server.URL+"/openapi.json", "--checks", "all", "--max-examples", cmp.Or(os.Getenv(examplesVar), "100"), "--seed", "20261101",
		"--generation-database", "none", "--continue-on-failure", "--no-color", "--workers", "2", "--warnings", "off")
	run.Dir = dir
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("schemathesis: %v", err)
	}
	for _, route := range slices.Sorted(maps.Keys(answers.codes)) {
		codes := answers.codes[route]
		t.Logf("%s: %v", cmp.Or(route, "no route"), codes)
		if strings.Contains(route, api.Prefix) && codes[http.StatusOK]+codes[http.StatusCreated] == 0 {
			t.Errorf("%s: %v, want a good answer among them", route, codes)
		}
	}
	if n := len(answers.codes); n < 22 {
		t.Errorf("%d routes were asked, want all 22", n)
	}
}

// examplesVar says how many requests the fuzzer makes up of each operation and
// phase; each phase has some more of its own.
const examplesVar = "GPUTALLY_FUZZ_EXAMPLES"
