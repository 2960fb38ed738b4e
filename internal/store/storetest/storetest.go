package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuledger/gpuledger/internal/store"
	"github.com/gpuledger/gpuledger/internal/store/engine"
)

const (
	dirPrefix   = "gpuledger-store-"
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

// Open gives a fresh database with all migrations applied. It is dropped when
// the test ends.
func Open(t testing.TB) *store.DB {
	t.Helper()
	db := OpenEmpty(t)
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate test database: %v", err)
	}
	return db
}

// OpenEmpty gives a name for a database that doesn't exist yet.
func OpenEmpty(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{
		Address:  "unix://" + Socket(t),
		Database: "test_" + strconv.FormatUint(shared.count.Add(1), 10),
	})
	if err != nil {
		t.Fatalf("open test store: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := db.Exec(context.Background(), dropDatabase, store.Named("database", db.Database())); err != nil {
			t.Errorf("drop test database: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close test store: %v", err)
		}
	})
	return db
}

// Socket is the path of the engine's Unix socket; it starts the engine when
// this is the binary's first test that needs it.
func Socket(t testing.TB) string {
	t.Helper()
	Library(t)
	shared.once.Do(func() { shared.socket, shared.err = start() })
	if shared.err != nil {
		t.Fatalf("start test engine: %v", shared.err)
	}
	return shared.socket
}

// Library is the path of libchdb.so. It skips the test where there is none.
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

// start opens the engine for the life of the process. There is no hook at its
// end, so each start removes what dead processes left behind.
func start() (socket string, err error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	e, err := engine.Open(engine.Options{Dir: filepath.Join(dir, "data"), MemoryBytes: memoryBytes, Threads: threads})
	if err != nil {
		return "", err
	}
	socket = filepath.Join(dir, "sock")
	listener, err := engine.Listen(context.Background(), socket)
	if err != nil {
		return "", err
	}
	go func() { _ = e.Serve(context.Background(), listener) }()
	return socket, nil
}

// sweep removes directories whose process is gone.
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
