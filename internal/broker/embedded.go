package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gpuledger/gpuledger/internal/clock"
)

// embeddedID is the cluster id by which a client knows the embedded broker.
const embeddedID = "gpuledger-embedded"

// EmbeddedOptions says where the embedded broker keeps its data and listens.
type EmbeddedOptions struct {
	Dir    string // data directory, created if missing; one process at a time
	Listen string // host:port; port 0 takes a free one; default 127.0.0.1:0
	// Protected asks every client for the password that is kept in Dir: any user of
	// the machine can reach a loopback address.
	Protected bool
	Log       *slog.Logger

	// MinSessionTimeout is the shortest session timeout a consumer may ask for;
	// default 6 s, Apache Kafka's own.
	MinSessionTimeout time.Duration
	// RetentionCheck is how often retention is applied, and how long after the start
	// for the first time; default 5 min, below zero: never.
	RetentionCheck time.Duration
	Clock          clock.Clock // stamps append times, and ages messages; default: the real one
}

// Embedded is a Kafka broker in this process. Produced messages and committed
// offsets are on disk before they are acknowledged, and survive SIGKILL.
//
// What can go wrong: the broker ignores errors of fsync, so on a failing disk an
// acknowledgement is worth what the disk is; a full disk is answered with
// UNKNOWN_SERVER_ERROR, which Producer retries.
type Embedded struct {
	cluster *kfake.Cluster
	addr    string
	aging   *retention
	// password is what clients show; empty: none is asked.
	password string
	lock     *os.File
	once     sync.Once
}

// StartEmbedded starts a broker on Dir. It fails when another process has Dir,
// or the address is taken.
func StartEmbedded(opt EmbeddedOptions) (*Embedded, error) {
	orDefault(&opt.Listen, "127.0.0.1:0")
	orDefault(&opt.MinSessionTimeout, 6*time.Second)
	orDefault(&opt.RetentionCheck, 5*time.Minute)
	orDefault(&opt.Clock, clock.Real())
	if opt.Dir == "" {
		return nil, errors.New("start embedded broker: dir is empty, want a data directory")
	}
	lock, err := lockDir(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("start embedded broker: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", opt.Listen)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("start embedded broker on %q: %w", opt.Listen, err)
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(embeddedID),
		kfake.DataDir(filepath.Join(opt.Dir, "data")),
		kfake.SyncWrites(),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return listener, nil }),
		kfake.GroupMinSessionTimeout(opt.MinSessionTimeout),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":     strconv.FormatInt(neverMS, 10), // retention is ours
			"default.replication.factor": "1",
			// Committed offsets of a stopped ingester outlive any retention of samples.
			"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60),
		}),
		kfake.WithLogger(kfakeLogger{opt.Log.With("component", "embedded-broker")}),
	}
	password := ""
	if opt.Protected {
		if password, err = keptPassword(opt.Dir); err != nil {
			_ = listener.Close()
			_ = lock.Close()
			return nil, fmt.Errorf("start embedded broker: %w", err)
		}
		options = append(options, kfake.EnableSASL(), kfake.Superuser("PLAIN", embeddedUser, password))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		_ = listener.Close()
		_ = lock.Close()
		return nil, fmt.Errorf("start embedded broker in %q: %w", opt.Dir, err)
	}
	stampAppendTimes(cluster, opt.Clock)
	keepLast(cluster)
	e := &Embedded{cluster: cluster, addr: listener.Addr().String(), password: password, lock: lock}
	e.aging = newRetention(cluster, e.addr, password, opt)
	e.aging.start(opt.RetentionCheck)
	return e, nil
}

const embeddedUser = "gpuledger"

// EmbeddedSASL is how a client shows the embedded broker its password; nil for an
// empty one.
func EmbeddedSASL(password string) sasl.Mechanism {
	if password == "" {
		return nil
	}
	return plain.Mechanism{Username: embeddedUser, Password: password}
}

// Password is for EmbeddedSASL; empty: none is asked.
func (e *Embedded) Password() string { return e.password }

// keptPassword reads the directory's password, or makes it. The broker keeps its
// users with its data, so it stays the same.
func keptPassword(dir string) (string, error) {
	path := filepath.Join(dir, "password")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read password: %w", err)
	}
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password), 0o600); err != nil {
		return "", fmt.Errorf("keep password: %w", err)
	}
	return password, nil
}

// Addr is the host:port that clients use.
func (e *Embedded) Addr() string { return e.addr }

// Close stops the broker, writes its snapshot and frees the directory.
func (e *Embedded) Close() error {
	var err error
	e.once.Do(func() {
		e.aging.stop()
		e.cluster.Close()
		err = e.lock.Close()
	})
	return err
}

// lockDir creates dir and takes its lock, which the system frees when the
// process ends. kfake has none of its own, and two of them destroy each other's
// segments.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %q: another broker has this directory open", path)
		}
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	return f, nil
}

type kfakeLogger struct{ log *slog.Logger }

func (l kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug // kfake's info is a line per request
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	if ctx := context.Background(); l.log.Enabled(ctx, to) {
		l.log.Log(ctx, to, fmt.Sprintf(format, args...))
	}
}
