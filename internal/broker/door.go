package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"golang.org/x/sync/semaphore"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/telemetry"
	"github.com/gputally/gputally/internal/unixsock"
)

// door is the embedded broker's listener. kfake trusts its clients: it allocates what a length announces, ends the
// process on an unknown API key, and accepts any number of connections. The door therefore accepts only connections
// of this process's user, and passes on only complete requests with known keys and versions and limited sizes.
type door struct {
	net.Listener
	address   net.Addr // the address in answers to clients
	keys      map[int16]rule
	protected bool // clients must log in first
	limits    doorLimits
	clock     clock.Clock
	log       *slog.Logger
	refused   *prometheus.CounterVec
	logged    atomic.Int64        // when a refusal was logged last, as Unix time in ns
	places    *semaphore.Weighted // one per connection
	// Memory in bytes for produce requests, and for all others, so that waiting produce requests don't delay
	// heartbeats.
	produce, others *semaphore.Weighted
}

// doorLimits bound what clients can make the broker allocate, and its timeouts.
type doorLimits struct {
	connections int64
	place       time.Duration // how long a new connection waits until another one ends
	login       time.Duration // from connecting to the end of the log-in
	request     time.Duration // from a request's first byte to its last; for writing an answer
	idle        time.Duration // between two requests
}

// Standalone and the commands open some ten connections each. Idle is Apache Kafka's default of
// connections.max.idle.ms.
var defaultDoorLimits = doorLimits{
	connections: 256, place: time.Second, login: 10 * time.Second, request: 30 * time.Second, idle: 10 * time.Minute,
}

// Memory for all unanswered requests, weighed as below, in bytes: two of the largest produce requests or twenty of a
// megabyte, and the largest request before log-in of every possible connection. Further requests wait.
const (
	produceMemory = 96 << 20
	othersMemory  = 64 << 20
)

// Bounds of a request's announced size in bytes. kmsg allocates at most requestWeight bytes for each announced array
// element, and as many elements as bytes follow; only produce requests, whose arrays are counted before, may be
// large.
const (
	maxRequestBytes = 64 << 10
	maxProduceBytes = 12 << 20 // a message of MaxMessageBytes in a batch, with overhead
	requestWeight   = 128
	copyWeight      = 4 // copies of data without arrays: one in the door, two in kfake, one in the segment
)

// rule is what the door accepts of an API key.
type rule struct {
	oldest, newest int16 // versions
	login          bool  // accepted before log-in
}

// ownKeys are the API keys that our clients use. The oldest version is the oldest that kfake serves: it allocates for
// older ones before it refuses them, and a produce request before version 3 has another layout. The newest is what
// kafka-go v0.4.51 uses, below the versions with compact lengths (KIP-482): the library would loop over as many
// tagged fields as such a request claims, up to 2^32, for a minute, before it finds that they are missing. Requests
// that delete or alter topics, records, groups, users or ACLs are missing on purpose: no client needs them.
var ownKeys = map[int16]rule{
	int16(kmsg.Produce):          {oldest: 3, newest: 8},
	int16(kmsg.Fetch):            {oldest: 4, newest: 11},
	int16(kmsg.ListOffsets):      {newest: 5},
	int16(kmsg.Metadata):         {newest: 8},
	int16(kmsg.OffsetCommit):     {newest: 7},
	int16(kmsg.OffsetFetch):      {newest: 5},
	int16(kmsg.FindCoordinator):  {newest: 2},
	int16(kmsg.JoinGroup):        {newest: 5},
	int16(kmsg.Heartbeat):        {newest: 3},
	int16(kmsg.LeaveGroup):       {newest: 3},
	int16(kmsg.SyncGroup):        {newest: 3},
	int16(kmsg.SASLHandshake):    {oldest: 1, newest: 1, login: true},
	int16(kmsg.ApiVersions):      {newest: 2, login: true},
	int16(kmsg.SASLAuthenticate): {newest: 1, login: true},
	int16(kmsg.CreateTopics):     {newest: 4},
	int16(kmsg.DescribeConfigs):  {newest: 3},
}

// maxPartitions is the most partitions of a topic; kfake would create 2^31, each with some 400 bytes and a directory.
const maxPartitions = 4096

// boundTopics makes the embedded broker refuse to create topics other than the program's own, with more than
// maxPartitions partitions, or on brokers that the client chose.
func boundTopics(cluster *kfake.Cluster, log *slog.Logger) {
	cluster.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		create, ok := req.(*kmsg.CreateTopicsRequest)
		if !ok || !slices.ContainsFunc(create.Topics, outOfBounds) {
			return nil, nil, false
		}
		log.Warn("topics refused", "topics", len(create.Topics))
		res := kmsg.NewPtrCreateTopicsResponse()
		res.Version = create.Version
		for _, t := range create.Topics {
			topic := kmsg.NewCreateTopicsResponseTopic()
			topic.Topic, topic.ErrorCode = t.Topic, int16(kafka.PolicyViolation)
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, true
	})
}

func outOfBounds(t kmsg.CreateTopicsRequestTopic) bool {
	own := t.Topic == TopicSamples || t.Topic == TopicDeadLetter || t.Topic == TopicDecisions
	return !own || t.NumPartitions > maxPartitions || len(t.ReplicaAssignment) > 0
}

func newDoor(listener net.Listener, opt EmbeddedOptions) *door {
	return &door{
		Listener: listener, address: socketAddr{}, keys: ownKeys, protected: opt.Protected,
		limits: defaultDoorLimits, clock: clock.Real(), log: opt.Log.With("component", "embedded-broker"),
		refused: telemetry.In(nil, "gputally_embedded_broker_").Counters(
			"refused_total", "Connections that the embedded broker refused or closed, by reason.", "reason"),
	}
}

// open allocates the semaphores according to the current limits.
func (d *door) open() *door {
	d.places = semaphore.NewWeighted(d.limits.connections)
	d.produce, d.others = semaphore.NewWeighted(produceMemory), semaphore.NewWeighted(othersMemory)
	return d
}

// socketAddr is the broker's address in its answers: kfake requires a host and a port; clients on a socket ignore it.
type socketAddr struct{}

func (socketAddr) Network() string { return "tcp" }
func (socketAddr) String() string  { return behindSocket }

// versions are the API keys and versions that kfake announces to clients.
func (d *door) versions() *kversion.Versions {
	v := new(kversion.Versions)
	for key, allowed := range d.keys {
		v.SetMaxKeyVersion(key, allowed.newest)
	}
	return v
}

// Addr is the address in the broker's metadata.
func (d *door) Addr() net.Addr { return d.address }

const acceptRetry = 100 * time.Millisecond

// Accept returns the next accepted connection. It retries every error but the listener's end: kfake stops accepting
// after an error, and a process may be out of file descriptors for a moment.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil {
			d.refuse("accept", "err", err)
			if err := clock.Sleep(context.Background(), d.clock, acceptRetry); err != nil {
				return nil, err
			}
			continue
		}
		if d.admit(conn) {
			return d.newConn(conn), nil
		}
		_ = conn.Close()
	}
}

// admit accepts connections of this process's user while the number of connections is below the limit.
func (d *door) admit(conn net.Conn) bool {
	if conn.LocalAddr().Network() == "unix" {
		uid, err := unixsock.Peer(conn)
		if err != nil || uid != os.Geteuid() {
			d.refuse("user", "uid", uid, "err", err)
			return false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.limits.place)
	defer cancel()
	if d.places.Acquire(ctx, 1) != nil {
		d.refuse("connections", "limit", d.limits.connections)
		return false
	}
	return true
}

// refuse counts a refusal, and logs at most one a second.
func (d *door) refuse(reason string, attrs ...any) {
	d.refused.WithLabelValues(reason).Inc()
	now, last := d.clock.Now().UnixNano(), d.logged.Load()
	if now-last >= int64(time.Second) && d.logged.CompareAndSwap(last, now) {
		d.log.Warn("connection refused or closed", append([]any{"reason", reason}, attrs...)...)
	}
}
