package broker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/files"
	"github.com/gputally/gputally/internal/unixsock"
)

// embeddedID is the embedded broker's cluster id, by which clients recognise it.
const embeddedID = "gputally-embedded"

// EmbeddedOptions has the embedded broker's data directory, address and limits.
type EmbeddedOptions struct {
	Dir string // data directory, created if missing; one process at a time
	// Listen is unix: and the path of a socket in a directory that only this user may enter; default: a socket in a
	// temporary directory. TCP is not supported: use Apache Kafka.
	Listen string
	// Protected requires clients to authenticate with the password kept in Dir.
	Protected bool
	Log       *slog.Logger

	// MinSessionTimeout is the shortest session timeout a consumer may ask for;
	// default 6 s, Apache Kafka's own.
	MinSessionTimeout time.Duration
	// RetentionCheck is the interval of retention, first applied one interval after the start; default 5 min, below
	// zero: never.
	RetentionCheck time.Duration
	Clock          clock.Clock // dates appended messages and computes their age; default: the real one

	// listen replaces the door in tests.
	listen func(address string) (*door, error)
}

// Embedded is a Kafka broker in this process. Produced messages and committed offsets are on disk before they are
// acknowledged, and survive SIGKILL.
//
// Limitations: the broker ignores errors of fsync, so on a failing disk an acknowledged message may be lost; a full
// disk is answered with UNKNOWN_SERVER_ERROR, which Producer retries.
type Embedded struct {
	cluster *kfake.Cluster
	addr    string
	temp    string // temporary directory of the socket; empty: Listen was given
	door    *door
	aging   *retention
	// password is what clients authenticate with; empty: no authentication.
	password string
	lock     *files.Lock
	once     sync.Once
}

// StartEmbedded starts a broker on Dir. It fails if another process uses Dir or the socket can't be created.
func StartEmbedded(opt EmbeddedOptions) (_ *Embedded, err error) {
	opt = withDefaults(opt,
		EmbeddedOptions{MinSessionTimeout: 6 * time.Second, RetentionCheck: 5 * time.Minute, Clock: clock.Real()})
	if opt.Dir == "" {
		return nil, errors.New("start embedded broker: dir is empty, want a data directory")
	}
	e := &Embedded{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start embedded broker in %q: %w", opt.Dir, err), e.release())
		}
	}()
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	// kfake has no lock of its own, and two processes would destroy each other's segments.
	if e.lock, err = files.TakeLock(filepath.Join(opt.Dir, "LOCK")); err != nil {
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
	controlProduce(e.cluster, opt.Clock, opt.Log)
	boundTopics(e.cluster, opt.Log)
	e.aging = newRetention(e.cluster, e.addr, e.password, opt)
	e.aging.start(opt.RetentionCheck)
	return e, nil
}

// listen opens the listener.
func (e *Embedded) listen(opt EmbeddedOptions) (err error) {
	if opt.listen != nil {
		if e.door, err = opt.listen(opt.Listen); err == nil {
			e.addr = e.door.Addr().String()
		}
		return err
	}
	if opt.Listen == "" {
		// TMPDIR isn't used, since its path may be too long for a socket.
		if e.temp, err = os.MkdirTemp("/tmp", "gputally-"); err != nil {
			return fmt.Errorf("create directory of the socket: %w", err)
		}
		opt.Listen = unixScheme + filepath.Join(e.temp, "kafka.sock")
	}
	path, ok := strings.CutPrefix(opt.Listen, unixScheme)
	if !ok {
		return fmt.Errorf("listen on %q: want unix: and a path (for TCP use Apache Kafka)", opt.Listen)
	}
	listener, err := unixsock.Listen(context.Background(), path)
	if err != nil {
		return err
	}
	e.door, e.addr = newDoor(listener, opt).open(), opt.Listen
	return nil
}

// options returns kfake's options. Users and ACLs are set from opt alone: kfake would prefer those on disk, so they
// are removed.
func (e *Embedded) options(opt EmbeddedOptions) ([]kfake.Opt, error) {
	data := filepath.Join(opt.Dir, "data")
	for _, name := range []string{"sasl.json", "acls.json"} {
		if err := files.Remove(filepath.Join(data, name)); err != nil {
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
			"log.cleaner.backoff.ms":     strconv.FormatInt(neverMS, 10), // this package applies retention itself
			"default.replication.factor": "1",
			// Committed offsets of a stopped ingester outlive any retention of samples.
			"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60),
		}),
		kfake.WithLogger(kfakeLogger{opt.Log.With("component", "embedded-broker")}),
	}
	if opt.Protected {
		// Not PLAIN: kfake accepts an empty password of any unknown user.
		options = append(options, kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser(scram.SHA256.Name(), embeddedUser, e.password))
	}
	return options, nil
}

const embeddedUser = "gputally"

// EmbeddedSASL returns the mechanism by which a client authenticates to the embedded broker; nil if the password is
// empty or can't be a broker's.
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

// Password is the password for EmbeddedSASL; empty: no authentication.
func (e *Embedded) Password() string { return e.password }

// keptPassword reads the directory's password, or creates it.
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

// Addr is the broker's address for Config.Brokers.
func (e *Embedded) Addr() string { return e.addr }

// Cluster gives tests access to kfake, to damage a topic in ways that clients can't.
func (e *Embedded) Cluster() *kfake.Cluster { return e.cluster }

// Metrics counts refused connections and requests.
func (e *Embedded) Metrics() prometheus.Collector { return e.door.refused }

// Close stops the broker, writes its snapshot and unlocks the directory.
func (e *Embedded) Close() error {
	var err error
	e.once.Do(func() {
		e.aging.stop()
		e.cluster.Close()
		err = e.release()
	})
	return err
}

// release frees what StartEmbedded acquired before the cluster runs.
func (e *Embedded) release() error {
	if e.door != nil {
		_ = e.door.Close() // kfake may have closed it
	}
	if e.temp != "" {
		_ = os.RemoveAll(e.temp) // anything left is empty
	}
	if e.lock == nil {
		return nil
	}
	return e.lock.Close()
}

// controlProduce makes kfake refuse batches that a consumer could not read, and batches that claim offsets without
// records; kfake checks the header only. It also sets each batch's time to that of the append
// (message.timestamp.type=LogAppendTime): kfake ignores that setting, and if the producer sets the attribute, kfake
// stamps the batch but stores it with the old CRC and drops it when it reloads.
func controlProduce(cluster *kfake.Cluster, c clock.Clock, log *slog.Logger) {
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce, ok := req.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		now := c.Now()
		for _, t := range produce.Topics {
			for _, p := range t.Partitions {
				if err := readable(p.Records); err != nil {
					log.Warn("records refused", "topic", t.Topic, "partition", p.Partition, "error", err)
					return refusal(produce), nil, true
				}
				stamp(p.Records, now)
			}
		}
		return nil, nil, false
	})
}

// readable returns why the records of a produce request are not one readable batch; nil: they are.
func readable(set []byte) error {
	b, rest, ok := cutBatch(set)
	switch {
	case !ok || len(rest) > 0:
		return fmt.Errorf("%d bytes, want one record batch", len(set))
	case b.err == nil && (b.count == 0 || int64(b.count) != b.last-b.first+1):
		return fmt.Errorf("batch has %d records for %d offsets", b.count, b.last-b.first+1)
	}
	if _, _, bad := b.messages(nil, b.first, Message{}, maxBatchBytes); bad != nil {
		return bad.Err
	}
	return nil
}

// refusal answers every partition of a request with the same error.
func refusal(req *kmsg.ProduceRequest) kmsg.Response {
	res, ok := req.ResponseKind().(*kmsg.ProduceResponse)
	if !ok || req.Acks == 0 {
		return nil
	}
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, int16(kafka.InvalidRecord)
			topic.Partitions = append(topic.Partitions, partition)
		}
		res.Topics = append(res.Topics, topic)
	}
	return res
}

// stamp shifts the times of a readable batch so that the first is now, and updates the CRC.
func stamp(batch []byte, now time.Time) {
	first := int64(binary.BigEndian.Uint64(batch[batchFirstTimeAt:]))
	last := int64(binary.BigEndian.Uint64(batch[batchMaxTimeAt:]))
	binary.BigEndian.PutUint64(batch[batchFirstTimeAt:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint64(batch[batchMaxTimeAt:], uint64(now.UnixMilli()+max(last-first, 0)))
	binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchBodyAt:], castagnoli))
}

type kfakeLogger struct{ log *slog.Logger }

func (l kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug // kfake logs a line per request at info
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
