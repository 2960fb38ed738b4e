package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/engine"
)

const (
	dirPrefix   = "gputally-store-"
	memoryBytes = 1 << 30
	threads     = 2
)

const dropDatabase = "DROP DATABASE IF EXISTS {database:Identifier} SYNC"

var shared struct {
	once   sync.Once
	socket string
	err    error
	count  atomic.Uint64
}

// Open returns an empty database with all migrations applied: one that an earlier test of this binary used, or a new
// one. The test must stop everything that writes into it before it ends.
func Open(t testing.TB) *store.DB {
	t.Helper()
	if spreadAll() {
		return Spread(t)
	}
	if left, ok := takeLeft(); ok {
		db := Connect(t, Socket(t), left.database)
		t.Cleanup(func() { giveBack(t, db, left.tables) })
		return db
	}
	db := Connect(t, Socket(t), newName())
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate test database: %v", err)
	}
	tables, err := tablesOf(t.Context(), db)
	if err != nil {
		t.Fatalf("list tables of test database: %v", err)
	}
	t.Cleanup(func() { giveBack(t, db, tables) })
	return db
}

// OpenEmpty returns a database that doesn't exist yet, under a new name.
func OpenEmpty(t testing.TB) *store.DB {
	t.Helper()
	return openEmpty(t, Socket(t))
}

func openEmpty(t testing.TB, socket string) *store.DB {
	t.Helper()
	db := Connect(t, socket, newName())
	t.Cleanup(func() { drop(t, db) })
	return db
}

func newName() string { return "test_" + strconv.FormatUint(shared.count.Add(1), 10) }

// drop is called in a test's cleanup, when the test's own context has ended.
func drop(t testing.TB, db *store.DB) {
	t.Helper()
	if err := db.Exec(context.Background(), dropDatabase, store.Named("database", db.Database())); err != nil {
		t.Errorf("drop test database: %v", err)
	}
}

// Connect opens a database on the engine at socket until the test ends.
func Connect(t testing.TB, socket, database string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Address: "unix://" + socket, Database: database})
	if err != nil {
		t.Fatalf("open test store: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close test store: %v", err)
		}
	})
	return db
}

// Socket is the path of the engine's Unix socket; the first call in a test binary starts the engine.
func Socket(t testing.TB) string {
	t.Helper()
	if spreadAll() {
		return spreadSocket(t)
	}
	Library(t)
	shared.once.Do(func() { shared.socket, _, shared.err = start("") })
	if shared.err != nil {
		t.Fatalf("start test engine: %v", shared.err)
	}
	return shared.socket
}

// Library is the path of libchdb.so. It skips the test if the library is missing.
func Library(t testing.TB) string {
	t.Helper()
	path, err := engine.Locate("")
	switch {
	case err == nil:
		return path
	case errors.Is(err, engine.ErrLibraryMissing) && os.Getenv("CI") != "true":
		t.Skipf("needs ClickHouse's library: %v", err)
	default:
		t.Fatalf("locate ClickHouse's library: %v", err)
	}
	return ""
}

// helperEnv makes a test binary serve the engine on the socket it names instead of running tests.
const (
	helperEnv       = "GPUTALLY_STORETEST_SOCKET"
	helperConfigEnv = "GPUTALLY_STORETEST_CONFIG" // its engine.Options.ExtraConfig
)

// init runs the engine in the helper process, before any test. The engine has its own process because the C++ threads
// of an engine inside a race-detecting binary crash some exits.
func init() {
	socket := os.Getenv(helperEnv)
	if socket == "" {
		return
	}
	err := engine.Serve(context.Background(), engine.Options{
		Dir: filepath.Join(filepath.Dir(socket), "data"), Socket: socket, MemoryBytes: memoryBytes, Threads: threads,
		Stdin:       os.Stdin,
		ExtraConfig: os.Getenv(helperConfigEnv),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // the helper process ends here
	}
	os.Exit(0) //nolint:forbidigo // no test may run in it
}

// start runs the engine until this process ends, which it notices by its standard input. A test binary has no hook at
// its end, so each start removes what ended processes left behind.
func start(extraConfig string) (socket string, s *engine.Supervisor, err error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "sock")
	s, err = engine.Supervise(context.Background(), engine.SuperviseOptions{
		Command: []string{binary}, Socket: socket,
		Env: append(os.Environ(), helperEnv+"="+socket, helperConfigEnv+"="+extraConfig),
	})
	return socket, s, err
}

// sweep removes directories whose process has ended.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), dirPrefix)
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = os.RemoveAll(filepath.Join(parent, entry.Name()))
	}
}
