package commandtest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store/storetest"
)

func TestMigrateDryRunPrintsStatements(t *testing.T) {
	got := programtest.Invoke(t, "migrate", "--cluster", "prod", "--dry-run")
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	for _, want := range []string{
		"CREATE DATABASE IF NOT EXISTS gputally ON CLUSTER 'prod';\n\nUSE gputally;\n",
		"CREATE TABLE IF NOT EXISTS holds_local ON CLUSTER 'prod'\n",
		"ENGINE = Distributed('prod', 'gputally', 'usage_hourly_local', cityHash64(gpu));\n",
		" VIEW IF NOT EXISTS usage ON CLUSTER 'prod' AS\n",
	} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, got.Stdout)
		}
	}
	single := programtest.Invoke(t, "migrate", "--dry-run")
	if single.Code != 0 || strings.Contains(single.Stdout, "CLUSTER") || !strings.Contains(single.Stdout,
		"CREATE TABLE IF NOT EXISTS holds\n") {
		t.Errorf("without a cluster: %+v", single)
	}
}

func TestMigrateSaysWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		`cluster "a b"`:      {"migrate", "--cluster", "a b", "--dry-run"},
		"no ledger is named": {"migrate"},
	} {
		if got := programtest.Invoke(t, args...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%v: %+v, want exit code %d and %q", args, got, cli.ExitUsage, want)
		}
	}
}

func TestMigrateOneServer(t *testing.T) {
	db := storetest.OpenEmpty(t)
	config := filepath.Join(t.TempDir(), "gputally.yaml")
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "engine"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", storetest.Socket(t))
		}},
	})
	t.Cleanup(server.Close)
	text := "clickhouse: {address: \"" + server.URL + "\", database: " + db.Database() + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{" applied\n", ": 0 migrations applied\n"} {
		if got := programtest.Invoke(t, "migrate", "--config",
			config); got.Code != 0 || !strings.HasSuffix(got.Stdout, want) {
			t.Errorf("run %d: %+v, want %q", i+1, got, want)
		}
	}
	got := programtest.Invoke(t, "migrate", "--config", config, "--cluster", "prod")
	if got.Code == cli.ExitOK || !strings.Contains(got.Stderr, "are on a single server") {
		t.Errorf("tables of one server, made a cluster's: %+v", got)
	}
}
