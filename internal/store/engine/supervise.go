package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/fault"
	"github.com/gputally/gputally/internal/unixsock"
)

const (
	defaultReadyTimeout = 60 * time.Second
	readyEvery          = 20 * time.Millisecond
	minBackoff          = 500 * time.Millisecond
	maxBackoff          = 30 * time.Second
	// calmAfter is how long a helper has to run until its crash is treated as a first one again.
	calmAfter = time.Minute
)

// SuperviseOptions are the helper's command, socket and limits.
type SuperviseOptions struct {
	Command      []string      // argv of the helper, which calls Serve on Socket with its standard input
	Env          []string      // its environment; nil: this process's
	Socket       string        // the helper's socket
	ReadyTimeout time.Duration // how long a start may take; 0: 60 s
	Log          *slog.Logger  // nil: nothing is logged; gets the helper's standard error
	Clock        clock.Clock   // nil: the real one
}

// Supervisor keeps one helper process running: it restarts it after a crash, first at once and then with a growing
// pause of up to 30 s.
type Supervisor struct {
	options  SuperviseOptions
	client   *http.Client
	restarts atomic.Int64
	pid      atomic.Int64
	stop     context.CancelFunc
	done     chan struct{}
}

// ErrStart is wrapped by the error of a failed first start: something that the helper needs is missing or unusable.
var ErrStart = fault.New(fault.Environment, "start engine")

// Supervise starts the helper and returns when it answers /ping. If the first start fails, the error is ErrStart with
// the tail of the helper's standard error. The helper runs until ctx ends or Stop is called; its standard input is a
// pipe from this process, so that it also ends if this process is killed.
func Supervise(ctx context.Context, o SuperviseOptions) (*Supervisor, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("supervise engine: Command is empty")
	}
	if len(o.Socket) > unixsock.MaxPath {
		return nil, fmt.Errorf("supervise engine: socket path %q has %d bytes, a Unix socket's can have %d", o.Socket,
			len(o.Socket), unixsock.MaxPath)
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Supervisor{options: o, client: pingClient(o.Socket), stop: stop, done: make(chan struct{})}
	h, err := s.start(ctx)
	if err != nil {
		stop()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	go s.keep(ctx, h)
	return s, nil
}

// Restarts is the number of restarts of the helper.
func (s *Supervisor) Restarts() int64 { return s.restarts.Load() }

// PID is the process id of the current helper.
func (s *Supervisor) PID() int { return int(s.pid.Load()) }

// Stop closes the helper's standard input and waits until it has released the directory. If ctx ends first, the
// helper is killed.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	if pid := s.PID(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.done
	return fmt.Errorf("stop engine: killed process %d: %w", s.PID(), ctx.Err())
}

// keep waits for the helper's end and restarts it, until ctx ends.
func (s *Supervisor) keep(ctx context.Context, h *helper) {
	defer close(s.done)
	backoff := time.Duration(0)
	for {
		started := s.options.Clock.Now()
		select {
		case <-ctx.Done():
			h.end()
			return
		case <-h.exited:
		}
		if s.options.Clock.Since(started) >= calmAfter {
			backoff = 0
		}
		s.options.Log.Error("engine ended unexpectedly", "err", h.err, "stderr", h.tail.String())
		if h, backoff = s.again(ctx, backoff); h == nil {
			return
		}
	}
}

// again starts a helper after the pause, until one answers. nil: ctx ended.
func (s *Supervisor) again(ctx context.Context, backoff time.Duration) (*helper, time.Duration) {
	for {
		if clock.Sleep(ctx, s.options.Clock, backoff) != nil {
			return nil, 0
		}
		backoff = min(max(2*backoff, minBackoff), maxBackoff)
		s.restarts.Add(1)
		h, err := s.start(ctx)
		if err == nil {
			s.options.Log.Info("engine restarted", "pid", s.PID(), "restarts", s.Restarts())
			return h, backoff
		}
		if ctx.Err() != nil {
			return nil, 0
		}
		s.options.Log.Error("restarting the engine failed", "err", err, "next_in", backoff)
	}
}

// helper is one running process.
type helper struct {
	stdin  io.WriteCloser
	tail   *tail
	exited chan struct{} // closed when it has ended; err is set then
	err    error
	kill   func() error
}

var errExitedClean = errors.New("without an error")

// exitError is the error of a helper that has ended.
func (h *helper) exitError() error {
	if h.err == nil {
		return errExitedClean
	}
	return h.err
}

func (h *helper) end() {
	_ = h.stdin.Close()
	<-h.exited
}

func (s *Supervisor) start(ctx context.Context) (*helper, error) {
	o := s.options
	cmd := exec.CommandContext(ctx, o.Command[0], o.Command[1:]...)
	cmd.Env = o.Env
	// In its own process group: an interrupt typed at the terminal goes to the parent only, which stops the engine
	// last.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h := &helper{tail: &tail{log: o.Log}, exited: make(chan struct{})}
	cmd.Stderr = h.tail
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to %s: %w", o.Command[0], err)
	}
	h.stdin = stdin
	// Not a kill: the helper closes its connections when its input ends.
	cmd.Cancel = stdin.Close
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", o.Command[0], err)
	}
	h.kill = cmd.Process.Kill
	s.pid.Store(int64(cmd.Process.Pid))
	go func() {
		h.err = cmd.Wait()
		close(h.exited)
	}()
	if err := s.awaitReady(ctx, h); err != nil {
		return nil, err
	}
	return h, nil
}

// awaitReady returns nil when the helper answers; otherwise it has stopped the helper.
func (s *Supervisor) awaitReady(ctx context.Context, h *helper) error {
	limit := s.options.Clock.NewTimer(s.options.ReadyTimeout)
	defer limit.Stop()
	ticker := s.options.Clock.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		if s.ping(ctx) {
			return nil
		}
		select {
		case <-h.exited:
			return fmt.Errorf("helper ended (exit: %w) before it answered; its standard error ends with: %s", h.exitError(),
				h.tail.String())
		case <-ctx.Done():
			h.end()
			return ctx.Err()
		case <-limit.C():
			_ = h.kill()
			<-h.exited
			return fmt.Errorf("helper didn't answer within %s; its standard error ends with: %s", s.options.ReadyTimeout,
				h.tail.String())
		case <-ticker.C():
		}
	}
}

func (s *Supervisor) ping(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/ping", nil)
	if err != nil {
		return false
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode == http.StatusOK
}

func pingClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return unixsock.Dial(ctx, socket) },
	}}
}

const tailBytes = 8 << 10

// tail passes lines to the log and keeps the last 8 KiB.
type tail struct {
	log *slog.Logger

	mu      sync.Mutex
	kept    []byte
	partial []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if excess := len(t.kept) - tailBytes; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
	}
	t.partial = append(t.partial, p...)
	for {
		line, rest, ok := strings.Cut(string(t.partial), "\n")
		if !ok {
			break
		}
		t.log.Info("engine", "stderr", line)
		t.partial = []byte(rest)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
