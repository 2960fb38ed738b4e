package storetest

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gputally/gputally/internal/store"
)

// spreadEnv gives every test a database as on a cluster: `make test GPUTALLY_STORETEST_SPREAD=1 PKG=./ingest/...`
// runs the statements of ingest on Distributed tables.
const spreadEnv = "GPUTALLY_STORETEST_SPREAD"

// SpreadCluster is the name of the cluster of Spread.
const SpreadCluster = "prod"

// spreadConfig is a cluster of one shard. Its port is the engine's own port, though it doesn't listen on it, so that
// the engine reads and writes directly.
const spreadConfig = `
    <tcp_port>9000</tcp_port>
    <remote_servers><prod><shard><internal_replication>true</internal_replication>
        <replica><host>127.0.0.1</host><port>9000</port></replica>
    </shard></prod></remote_servers>
`

// spread is the engine of Spread, one per test binary like the other one.
var spread struct {
	once   sync.Once
	socket string
	err    error
}

var (
	replicatedEngine = regexp.MustCompile(`ENGINE = Replicated(\w+)\('[^']*', '[^']*'(?:, )?`)
	onCluster        = " ON CLUSTER '" + SpreadCluster + "'"
)

// Spread returns a new database with all migrations applied as on a cluster: Distributed tables over local ones. What
// the engine doesn't support is left out: ON CLUSTER, and replication (its replicas accept no rows).
func Spread(t testing.TB) *store.DB {
	t.Helper()
	db := SpreadEmpty(t)
	statements, err := store.Statements(db.Database(), SpreadCluster)
	if err != nil {
		t.Fatalf("render test database: %v", err)
	}
	for _, statement := range statements[1:] { // the first creates the database
		SpreadExec(t, db, statement)
	}
	return db
}

// SpreadEmpty returns a database without tables on the engine of Spread.
func SpreadEmpty(t testing.TB) *store.DB {
	t.Helper()
	socket := spreadSocket(t)
	db := openEmpty(t, socket)
	admin := Connect(t, socket, "default")
	if err := admin.Exec(t.Context(), "CREATE DATABASE IF NOT EXISTS "+db.Database()); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	return db
}

// SpreadExec executes a statement for a cluster, adapted to what the engine supports.
func SpreadExec(t testing.TB, db *store.DB, statement string) {
	t.Helper()
	statement = replicatedEngine.ReplaceAllString(strings.Replace(statement, onCluster, "", 1), "ENGINE = $1(")
	if err := db.Exec(t.Context(), statement); err != nil {
		t.Fatalf("make test database: %v:\n%s", err, statement)
	}
}

func spreadSocket(t testing.TB) string {
	t.Helper()
	Library(t)
	spread.once.Do(func() {
		if spread.socket, _, spread.err = start(spreadConfig); spread.err == nil {
			spread.socket, spread.err = direct(spread.socket)
		}
	})
	if spread.err != nil {
		t.Fatalf("start test engine of a cluster: %v", spread.err)
	}
	return spread.socket
}

// direct is a proxy for the engine at socket that removes settings that depend on the engine's own port, on which it
// doesn't listen: prefer_localhost_replica.
func direct(socket string) (through string, err error) {
	through = filepath.Join(filepath.Dir(socket), "direct")
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", through)
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "engine"})
			query := r.Out.URL.Query()
			query.Del("prefer_localhost_replica")
			r.Out.URL.RawQuery = query.Encode()
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}},
		FlushInterval: -1,
	}
	go func() { _ = http.Serve(l, proxy) }() //nolint:gosec // lives as long as the test binary
	return through, nil
}

func spreadAll() bool { return os.Getenv(spreadEnv) != "" }
