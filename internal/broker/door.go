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

// door is the embedded broker's listener. kfake trusts its clients: it allocates
// what a length announces, ends the process over an unknown API key, and keeps any
// number of connections. The door therefore admits this process's user alone, and
// hands on whole requests of known keys, versions and sizes.
type door struct {
	net.Listener
	address   net.Addr // in the answers to clients
	keys      map[int16]rule
	protected bool // clients log in first
	limits    doorLimits
	clock     clock.Clock
	log       *slog.Logger
	refused   *prometheus.CounterVec
	logged    atomic.Int64        // when a refusal was logged last, as Unix time in ns
	places    *semaphore.Weighted // a connection takes one
	// Bytes for produce requests, and for all others: who waits for the first
	// doesn't hold up a heartbeat.
	produce, others *semaphore.Weighted
}

// doorLimits bound what clients can make the broker hold.
type doorLimits struct {
	connections int64
	place       time.Duration // that a new connection waits for another one's end
	login       time.Duration // from connecting to having logged in
	request     time.Duration // from a request's first byte to its last; for writing an answer
	idle        time.Duration // between two requests
}

// A standalone and its commands have some ten connections each. Idle is what
// Apache Kafka takes for connections.max.idle.ms.
var defaultDoorLimits = doorLimits{
	connections: 256, place: time.Second, login: 10 * time.Second, request: 30 * time.Second, idle: 10 * time.Minute,
}

// Bytes of all requests that are not answered yet, as weighed below: two of the
// largest produce requests, or twenty of a megabyte, and as many connections as
// there may be with the largest request before log-in. More wait.
const (
	produceMemory = 96 << 20
	othersMemory  = 64 << 20
)

// Bytes that a request may announce. kmsg makes room for as many elements of an
// array as bytes follow, at most requestWeight bytes for each; only produce
// requests, whose arrays are counted before, may be large.
const (
	maxRequestBytes = 64 << 10
	maxProduceBytes = 12 << 20 // a message of MaxMessageBytes in a batch, and room
	requestWeight   = 128
	copyWeight      = 4 // of what has no arrays: in the door, in kfake twice, in the segment
)

// rule is what the door lets through of an API key.
type rule struct {
	oldest, newest int16 // versions
	login          bool  // a client may ask it that has not logged in
}

// ownKeys are the API keys that our clients use. The oldest version is what kfake
// serves: it makes room for older ones before it refuses them, and a produce request
// before 3 has another layout. The newest is what kafka-go v0.4.51 knows, below those
// with compact lengths (KIP-482): the library reads as many tagged fields as such a
// request claims, 2^32 of them for a minute, before it sees that there are none. What
// deletes or alters topics, records, groups, users or rights is not among them: nobody
// does that through the door.
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

// maxPartitions is what a topic may have; kfake would make 2^31 of them, each of
// some 400 bytes and a folder.
const maxPartitions = 4096

// boundTopics makes the embedded broker refuse to make topics other than the
// program's own, of more partitions than anybody needs, or on brokers of the client's
// choice.
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

// open makes the places, of the limits as they are now.
func (d *door) open() *door {
	d.places = semaphore.NewWeighted(d.limits.connections)
	d.produce, d.others = semaphore.NewWeighted(produceMemory), semaphore.NewWeighted(othersMemory)
	return d
}

// socketAddr is the broker's address in its answers: kfake wants a host and a port,
// and a client on a socket dials nothing else, whatever the answer says.
type socketAddr struct{}

func (socketAddr) Network() string { return "tcp" }
func (socketAddr) String() string  { return behindSocket }

// versions are the keys as kfake offers them to clients.
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

// Accept gives the next connection that is admitted. Only the listener's end is an
// error: kfake accepts nothing any more after one, and a process may be out of
// file descriptors for a moment.
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

// admit takes this process's user, where there is a place.
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

// refuse counts, and logs at most once a second.
func (d *door) refuse(reason string, attrs ...any) {
	d.refused.WithLabelValues(reason).Inc()
	now, last := d.clock.Now().UnixNano(), d.logged.Load()
	if now-last >= int64(time.Second) && d.logged.CompareAndSwap(last, now) {
		d.log.Warn("connection refused or closed", append([]any{"reason", reason}, attrs...)...)
	}
}
