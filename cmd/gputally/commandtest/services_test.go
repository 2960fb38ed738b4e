package commandtest

import (
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

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store/storetest"
)

// clickHouse serves an engine over TCP, as a server of its own is.
func clickHouse(t *testing.T) string {
	t.Helper()
	storetest.Library(t)
	a := programtest.OpenNew(t, filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(a.Dir.TempDir(), app.SocketName)
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
	path := filepath.Join(dir, settings.ConfigName)
	placetest.WriteFile(t, path, fmt.Sprintf(`
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
		running := programtest.Start(t, c.name, "--config", path)
		status, body := programtest.Fetch(t, running.Url+"/-/ready")
		if (status == http.StatusOK) != (c.unready == "") || !strings.Contains(body, c.unready) {
			t.Errorf("%s: /-/ready says %d %q, want %q", c.name, status, body, c.unready)
		}
		if status, body := programtest.Fetch(t, running.Url+"/metrics"); status != http.StatusOK || !strings.Contains(body,
			c.metric) {
			t.Errorf("%s: /metrics says %d and has no %s", c.name, status, c.metric)
		}
		for _, path := range []string{"/openapi.json", "/statements/"} {
			status, _ = programtest.Fetch(t, running.Url+path)
			if serves := status == http.StatusOK; serves != (c.name == "billing") {
				t.Errorf("%s: %s says %d", c.name, path, status)
			}
		}
		if code := running.Stop(); code != cli.ExitOK {
			t.Errorf("%s: ended with %d", c.name, code)
		}
	}
}

// A node must be metered while Kafka is away: the collector starts, spools and
// says which brokers do not answer; once they do, it sends what waits.
func TestCollectorSpoolsWhileKafkaIsAway(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, programtest.Exposition)
	}))
	t.Cleanup(exporter.Close)
	dir := t.TempDir()
	path, spoolPath := filepath.Join(dir, settings.ConfigName), filepath.Join(dir, "spool")
	configure := func(brokers string) {
		placetest.WriteFile(t, path, fmt.Sprintf("cluster: {slot: 1s}\ncollector: {id: c1, spool_dir: spool}\n"+
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
	running, log := programtest.StartLogged(t, "collector", "--config", path)
	log.Await(t, regexp.MustCompile(`batches wait in the spool.*prepare topics at 127.0.0.1:1`))
	programtest.Eventually(t, "batches in the spool", func() bool { return waiting() >= 2 })
	if code := running.Stop(); code != cli.ExitOK {
		t.Errorf("stopped while Kafka is away: exit code %d", code)
	}
	configure(kafka(t))
	running, _ = programtest.StartLogged(t, "collector", "--config", path)
	programtest.Eventually(t, "an empty spool", func() bool { return waiting() == 0 })
	if code := running.Stop(); code != cli.ExitOK {
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
		"":                                    {"ingest", cli.ExitUsage, "kafka.brokers: is empty"},
		"kafka: {brokers: [\"127.0.0.1:1\"]}": {"ingest", cli.ExitUsage, "clickhouse.address"},
		"cluster: {name: x}":                  {"billing", cli.ExitUsage, "kafka.brokers: is empty"},
		"clickhouse: {address: \"http://127.0.0.1:1\"}": {"analyzer", cli.ExitFailed, "http://127.0.0.1:1"},
	} {
		placetest.WriteFile(t, settings.ConfigName, text)
		got := programtest.Invoke(t, want.service, "--config", settings.ConfigName)
		if got.Code != want.code || !strings.Contains(got.Stderr, want.message) {
			t.Errorf("%s with %q: got %+v, want %q", want.service, text, got, want.message)
		}
	}
	got := programtest.Invoke(t, "billing", "--listen", "0.0.0.0:80")
	if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "other machines could reach it") {
		t.Errorf("a public address: got %+v", got)
	}
}

func TestPortInUseIsTheEnvironmentsFault(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := filepath.Join(t.TempDir(), settings.ConfigName)
	placetest.WriteFile(t, path, "kafka: {brokers: [\"127.0.0.1:1\"]}\n")
	got := programtest.Invoke(t, "collector", "--config", path, "--listen", taken.Addr().String())
	if got.Code != cli.ExitEnvironment || !strings.Contains(got.Stderr,
		taken.Addr().String()+": another process uses this address") {
		t.Errorf("port in use: got %+v", got)
	}
}
