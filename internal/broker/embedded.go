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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/unixsock"
)

// embeddedID is the cluster id by which a client knows the embedded broker.
const embeddedID = "gputally-embedded"

// EmbeddedOptions says where the embedded broker keeps its data and listens.
type EmbeddedOptions struct {
	Dir string // data directory, created if missing; one process at a time
	// Listen is unix: and the path of a socket, in a folder that only this user may
	// enter; default: one in a temporary folder. Whoever wants TCP has Apache Kafka.
	Listen string
	// Protected asks every client for the password that is kept in Dir.
	Protected bool
	Log       *slog.Logger

	// MinSessionTimeout is the shortest session timeout a consumer may ask for;
	// default 6 s, Apache Kafka's own.
	MinSessionTimeout time.Duration
	// RetentionCheck is how often retention is applied, and how long after the start
	// for the first time; default 5 min, below zero: never.
	RetentionCheck time.Duration
	Clock          clock.Clock // stamps append times, and ages messages; default: the real one

	// listen makes another door, for tests.
	listen func(address string) (*door, error)
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
	temp    string // folder of the socket, where it is ours
	door    *door
	aging   *retention
	// password is what clients show; empty: none is asked.
	password string
	lock     *os.File
	once     sync.Once
}

// StartEmbedded starts a broker on Dir. It fails when another process has Dir, or
// the socket can't be made.
func StartEmbedded(opt EmbeddedOptions) (_ *Embedded, err error) {
	orDefault(&opt.MinSessionTimeout, 6*time.Second)
	orDefault(&opt.RetentionCheck, 5*time.Minute)
	orDefault(&opt.Clock, clock.Real())
	if opt.Dir == "" {
		return nil, errors.New("start embedded broker: dir is empty, want a data directory")
	}
	e := &Embedded{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start embedded broker in %q: %w", opt.Dir, err), e.release())
		}
	}()
	if e.lock, err = lockDir(opt.Dir); err != nil {
		return nil, err
	}
	if opt.Protected {
		if e.password, err = keptPassword(opt.Dir); err != nil {
			return nil, err
		}
	}
	if err := e.listen(opt); err != nil {
		return nil, err
	}
	options, err := e.options(opt)
	if err != nil {
		return nil, err
	}
	if e.cluster, err = kfake.NewCluster(options...); err != nil {
		return nil, err
	}
	refuseUnreadable(e.cluster, opt.Log)
	boundTopics(e.cluster, opt.Log)
	stampAppendTimes(e.cluster, opt.Clock)
	e.aging = newRetention(e.cluster, e.addr, e.password, opt)
	e.aging.start(opt.RetentionCheck)
	return e, nil
}

// listen opens the door.
func (e *Embedded) listen(opt EmbeddedOptions) (err error) {
	if opt.listen != nil {
		if e.door, err = opt.listen(opt.Listen); err == nil {
			e.addr = e.door.Addr().String()
		}
		return err
	}
	if opt.Listen == "" {
		// Not in TMPDIR, whose path may be too long for a socket.
		if e.temp, err = os.MkdirTemp("/tmp", "gputally-"); err != nil {
			return fmt.Errorf("make folder for the socket: %w", err)
		}
		opt.Listen = unixScheme + filepath.Join(e.temp, "kafka.sock")
	}
	path, ok := strings.CutPrefix(opt.Listen, unixScheme)
	if !ok {
		return fmt.Errorf("listen on %q: want unix: and a path", opt.Listen)
	}
	listener, err := unixsock.Listen(context.Background(), path)
	if err != nil {
		return err
	}
	e.door, e.addr = newDoor(listener, opt).open(), opt.Listen
	return nil
}

// options are kfake's. Users and rights follow from opt alone: what lies on the
// disk of them would count instead, so it is removed.
func (e *Embedded) options(opt EmbeddedOptions) ([]kfake.Opt, error) {
	data := filepath.Join(opt.Dir, "data")
	for _, name := range []string{"sasl.json", "acls.json"} {
		if err := os.Remove(filepath.Join(data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove old users: %w", err)
		}
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(embeddedID),
		kfake.DataDir(data),
		kfake.SyncWrites(),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return e.door, nil }),
		kfake.MaxVersions(e.door.versions()),
		kfake.GroupMinSessionTimeout(opt.MinSessionTimeout),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":     strconv.FormatInt(neverMS, 10), // retention is ours
			"default.replication.factor": "1",
			// Committed offsets of a stopped ingester outlive any retention of samples.
			"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60),
		}),
		kfake.WithLogger(kfakeLogger{opt.Log.With("component", "embedded-broker")}),
	}
	if opt.Protected {
		// Not PLAIN: kfake takes an empty password of any user it doesn't know.
		options = append(options, kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser(scram.SHA256.Name(), embeddedUser, e.password))
	}
	return options, nil
}

const embeddedUser = "gputally"

// EmbeddedSASL is how a client proves to the embedded broker that it knows its
// password; nil for an empty one, and for one that no broker can have made.
func EmbeddedSASL(password string) sasl.Mechanism {
	if password == "" {
		return nil
	}
	mechanism, err := scram.Mechanism(scram.SHA256, embeddedUser, password)
	if err != nil {
		return nil
	}
	return mechanism
}

// Password is for EmbeddedSASL; empty: none is asked.
func (e *Embedded) Password() string { return e.password }

// keptPassword reads the directory's password, or makes it.
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

// Addr is what clients have in Config.Brokers.
func (e *Embedded) Addr() string { return e.addr }

// Cluster is for tests that damage a topic, which no client can do.
func (e *Embedded) Cluster() *kfake.Cluster { return e.cluster }

// Metrics count what the broker refused.
func (e *Embedded) Metrics() prometheus.Collector { return e.door.refused }

// Close stops the broker, writes its snapshot and frees the directory.
func (e *Embedded) Close() error {
	var err error
	e.once.Do(func() {
		e.aging.stop()
		e.cluster.Close()
		err = e.release()
	})
	return err
}

// release frees what StartEmbedded took before the cluster runs.
func (e *Embedded) release() error {
	if e.door != nil {
		_ = e.door.Close() // kfake may have done it
	}
	if e.temp != "" {
		_ = os.RemoveAll(e.temp) // what stays is empty
	}
	if e.lock == nil {
		return nil
	}
	return e.lock.Close()
}

// lockDir creates dir and takes its lock, which the system frees when the
// process ends. kfake has none of its own, and two of them destroy each other's
// segments.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
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
