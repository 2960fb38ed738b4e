package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

// defaultDatabase is the database of requests that name none.
const defaultDatabase = "default"

// killEvery is how often the kill of a statement whose client disconnected is repeated: the first attempt may come
// before the engine has registered the statement.
const killEvery = 50 * time.Millisecond

const killStatement = "KILL QUERY WHERE Settings['log_comment'] = {id:String} ASYNC"

// Engine is the open engine: an http.Handler with ClickHouse's HTTP interface. A process can have one directory open
// at a time.
type Engine struct {
	dir     string
	log     *slog.Logger
	clock   clock.Clock
	version string
	drain   time.Duration
	pool    *pool

	// base stays open until Close, since closing the last connection stops the engine. It also runs the kills.
	baseMu sync.Mutex
	base   *conn
}

// opened is the directory that this process has open: the library allows one.
var opened struct {
	sync.Mutex
	dir string
}

// Open loads the library and opens the engine on o.Dir. It fails if the library is missing or too old, if another
// process uses the directory, or if this process has another directory open.
func Open(o Options) (*Engine, error) {
	if err := o.normalize(); err != nil {
		return nil, err
	}
	path, err := Locate(o.Library)
	if err != nil {
		return nil, err
	}
	lib, err := load(path)
	if err != nil {
		return nil, err
	}
	opened.Lock()
	defer opened.Unlock()
	if opened.dir != "" {
		return nil, fmt.Errorf("open engine on %s: this process has opened one on %s, and can open only one", o.Dir,
			opened.dir)
	}
	arguments, err := o.arguments()
	if err != nil {
		return nil, err
	}
	if err := checkUnlocked(o.Dir); err != nil {
		return nil, err
	}
	e, err := open(lib, arguments, o)
	if err != nil {
		return nil, fmt.Errorf("open engine on %s: %w", o.Dir, err)
	}
	opened.dir = o.Dir
	return e, nil
}

func open(lib *library, arguments []string, o Options) (*Engine, error) {
	base, err := newConn(lib, arguments)
	if err != nil {
		return nil, err
	}
	if err := base.begin("gputally-base", session{database: defaultDatabase}); err != nil {
		base.close()
		return nil, err
	}
	version, _, err := base.run("SELECT version()", "TSVRaw", nil)
	if err != nil {
		base.close()
		return nil, err
	}
	e := &Engine{
		dir: o.Dir, log: o.Log, clock: o.Clock, drain: o.Drain, base: base,
		version: string(bytes.TrimSpace(version)),
	}
	e.pool = newPool(func() (*conn, error) { return newConn(lib, arguments) }, maxConnsInUse)
	o.Log.Info("engine open", "dir", o.Dir, "library", lib.path, "version", e.version, "memory_bytes", o.MemoryBytes)
	return e, nil
}

// Version is ClickHouse's version, such as "26.7.2.1".
func (e *Engine) Version() string { return e.version }

// Close waits for running statements, closes every connection and thereby releases the directory's lock. End the
// requests first.
func (e *Engine) Close() {
	opened.Lock()
	defer opened.Unlock()
	// Before base is locked: killing running statements needs it.
	e.pool.close()
	e.baseMu.Lock()
	defer e.baseMu.Unlock()
	if e.base == nil {
		return
	}
	e.base.close()
	e.base = nil
	opened.dir = ""
	e.log.Info("engine closed", "dir", e.dir)
}

// watch kills c's statement if ctx ends before stop is called. After stop nothing is killed.
func (e *Engine) watch(ctx context.Context, c *conn) (stop func()) {
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		ticker := e.clock.NewTicker(killEvery)
		defer ticker.Stop()
		for {
			e.kill(c.id)
			select {
			case <-done:
				return
			case <-ticker.C():
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

func (e *Engine) kill(id string) {
	e.baseMu.Lock()
	defer e.baseMu.Unlock()
	if e.base == nil {
		return
	}
	if _, _, err := e.base.run(killStatement, nativeFormat, []param{{"id", id}}); err != nil {
		e.log.Warn("killing the statement failed", "id", id, "err", err)
	}
}

var statusPID = regexp.MustCompile(`PID: (\d+)`)

// checkUnlocked returns an error with the process that holds dir; the library would only print it to standard error.
func checkUnlocked(dir string) error {
	path := filepath.Join(dir, "status")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read engine lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return nil
	}
	holder := "another process"
	if text, err := os.ReadFile(path); err == nil {
		if m := statusPID.FindSubmatch(text); m != nil {
			holder = "process " + string(m[1])
		}
	}
	return fmt.Errorf("open engine on %s: %s has it open", dir, holder)
}
