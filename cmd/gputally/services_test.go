package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/store/storetest"
)

// service is a command that runs in the background.
type service struct {
	url  string
	stop func() int // interrupts it and returns its exit code
}

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

// start runs a service until it listens. The test ends it where stop was not
// called.
func start(t *testing.T, args ...string) service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, append(args, "--listen", "127.0.0.1:0"), strings.NewReader(""), io.Discard, writer)
		_ = writer.Close() // the reader sees the end
	}()
	stopped := false
	stop := func() int {
		stopped = true
		cancel()
		return <-code
	}
	t.Cleanup(func() {
		if !stopped {
			stop()
		}
	})
	address, log := make(chan string, 1), bufio.NewScanner(reader)
	go func() {
		defer close(address)
		for log.Scan() {
			_, _ = fmt.Fprintln(t.Output(), log.Text())
			if found := listening.FindStringSubmatch(log.Text()); found != nil {
				address <- found[1]
			}
		}
	}()
	at, ok := <-address
	if !ok {
		t.Fatalf("gputally %s: ended with %d before it listened", strings.Join(args, " "), <-code)
	}
	return service{"http://" + at, stop}
}

func fetch(t *testing.T, address string) (int, string) {
	t.Helper()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// clickHouse serves an engine over TCP, as a server of its own is.
func clickHouse(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	a := openNew(t, filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(a.dir.TempDir(), socketName)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

func kafka(t *testing.T) string {
	t.Helper()
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	})
	return embedded.Addr()
}

func TestSeparateServicesServeAndDrain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, configName)
	writeFile(t, path, fmt.Sprintf(`
collector: {id: c1, spool_dir: spool}
exporter: {targets: [{url: "http://127.0.0.1:1/metrics"}]}
kafka: {brokers: ["%s"]}
clickhouse: {address: "%s", database: separate}
`, kafka(t), clickHouse(t)))
	for _, c := range []struct{ name, metric, unready string }{
		{"ingest", "gputally_ingest_", ""},
		{"collector", "gputally_collector_", "nothing was metered yet"}, // its exporter isn't there
		{"analyzer", "gputally_analyzer_", ""},
		{"billing", "gputally_billing_", ""},
	} {
		running := start(t, c.name, "--config", path)
		status, body := fetch(t, running.url+"/-/ready")
		if (status == http.StatusOK) != (c.unready == "") || !strings.Contains(body, c.unready) {
			t.Errorf("%s: /-/ready says %d %q, want %q", c.name, status, body, c.unready)
		}
		if status, body := fetch(t, running.url+"/metrics"); status != http.StatusOK || !strings.Contains(body, c.metric) {
			t.Errorf("%s: /metrics says %d and has no %s", c.name, status, c.metric)
		}
		for _, path := range []string{"/openapi.json", "/statements/"} {
			status, _ = fetch(t, running.url+path)
			if serves := status == http.StatusOK; serves != (c.name == "billing") {
				t.Errorf("%s: %s says %d", c.name, path, status)
			}
		}
		if code := running.stop(); code != exitOK {
			t.Errorf("%s: ended with %d", c.name, code)
		}
	}
}

// A node must be metered while Kafka is away: the collector starts, spools and
// says which brokers do not answer; once they do, it sends what waits.
func TestCollectorSpoolsWhileKafkaIsAway(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, exposition)
	}))
	t.Cleanup(exporter.Close)
	dir := t.TempDir()
	path, spoolPath := filepath.Join(dir, configName), filepath.Join(dir, "spool")
	configure := func(brokers string) {
		writeFile(t, path, fmt.Sprintf("cluster: {slot: 1s}\ncollector: {id: c1, spool_dir: spool}\n"+
			"exporter: {targets: [{url: %q}]}\nkafka: {brokers: [%q]}\n", exporter.URL+"/metrics", brokers))
	}
	waiting := func() uint64 {
		st, err := spool.ReadStats(spoolPath)
		if err != nil {
			return 0 // not there yet
		}
		return st.Records
	}
	configure("127.0.0.1:1")
	running, log := startLogged(t, "collector", "--config", path)
	log.await(t, regexp.MustCompile(`batches wait in the spool.*prepare topics at 127.0.0.1:1`))
	eventually(t, "batches in the spool", func() bool { return waiting() >= 2 })
	if code := running.stop(); code != exitOK {
		t.Errorf("stopped while Kafka is away: exit code %d", code)
	}
	configure(kafka(t))
	running, _ = startLogged(t, "collector", "--config", path)
	eventually(t, "an empty spool", func() bool { return waiting() == 0 })
	if code := running.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestSeparateServicesSayWhatTheyLack(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, want := range map[string]struct {
		service string
		code    int
		message string
	}{
		"":                                    {"ingest", exitUsage, "kafka.brokers: is empty"},
		"kafka: {brokers: [\"127.0.0.1:1\"]}": {"ingest", exitUsage, "clickhouse.address"},
		"cluster: {name: x}":                  {"billing", exitUsage, "kafka.brokers: is empty"},
		"clickhouse: {address: \"http://127.0.0.1:1\"}": {"analyzer", exitFailed, "http://127.0.0.1:1"},
	} {
		writeFile(t, configName, text)
		got := invoke(t, want.service, "--config", configName)
		if got.Code != want.code || !strings.Contains(got.Stderr, want.message) {
			t.Errorf("%s with %q: got %+v, want %q", want.service, text, got, want.message)
		}
	}
	got := invoke(t, "billing", "--listen", "0.0.0.0:80")
	if got.Code != exitUsage || !strings.Contains(got.Stderr, "other machines could reach it") {
		t.Errorf("a public address: got %+v", got)
	}
}

func TestPortInUseIsTheEnvironmentsFault(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := filepath.Join(t.TempDir(), configName)
	writeFile(t, path, "kafka: {brokers: [\"127.0.0.1:1\"]}\n")
	got := invoke(t, "collector", "--config", path, "--listen", taken.Addr().String())
	if got.Code != exitEnvironment || !strings.Contains(got.Stderr, taken.Addr().String()+": another process uses this address") {
		t.Errorf("port in use: got %+v", got)
	}
}
