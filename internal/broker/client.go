package broker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/telemetry"
	"github.com/gputally/gputally/internal/unixsock"
)

// Client talks to the brokers of one Config. It is safe for concurrent use.
type Client struct {
	config    Config
	dial      dialFunc // nil: kafka-go's own
	addresses []string // host:port of the brokers
	log       *slog.Logger
	clock     clock.Clock
	metrics   *metrics
	transport *kafka.Transport
	kafka     *kafka.Client
}

// NewClient makes a client; nothing is dialled before the first call.
func NewClient(config Config, log *slog.Logger) *Client {
	config = withDefaults(config, DefaultConfig())
	addresses, dial := dialing(config.Brokers)
	transport := &kafka.Transport{
		Dial:        dial,
		DialTimeout: config.DialTimeout,
		ClientID:    config.ClientID,
		TLS:         config.TLS,
		SASL:        config.SASL,
	}
	return &Client{
		config:    config,
		dial:      dial,
		addresses: addresses,
		log:       log.With("component", "broker"),
		clock:     config.Clock,
		metrics:   newMetrics(config.Registerer),
		transport: transport,
		kafka:     &kafka.Client{Addr: kafka.TCP(addresses...), Transport: transport},
	}
}

// dialFunc is what kafka-go calls for a connection.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

const (
	// unixScheme begins the address of a broker behind a Unix socket.
	unixScheme = "unix:"
	// behindSocket stands for its host and port, which kafka-go and kfake want.
	behindSocket = "localhost:9092"
)

// dialing is how brokers are reached. One behind a Unix socket is alone: every
// connection goes to the socket, whatever address the broker gives.
func dialing(brokers []string) ([]string, dialFunc) {
	if len(brokers) != 1 {
		return brokers, nil
	}
	path, ok := strings.CutPrefix(brokers[0], unixScheme)
	if !ok {
		return brokers, nil
	}
	return []string{behindSocket}, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return unixsock.Dial(ctx, path)
	}
}

// Close drops idle connections. Consumers are closed by themselves, before.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// request bounds one round trip to a broker.
func (c *Client) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.RequestTimeout)
}

// partitionCount asks for a topic's partitions; the transport caches the answer
// for some seconds.
func (c *Client) partitionCount(ctx context.Context, topic string) (int, error) {
	ctx, cancel := c.request(ctx)
	defer cancel()
	meta, err := c.kafka.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, fmt.Errorf("read metadata of topic %q: %w", topic, err)
	}
	for _, t := range meta.Topics {
		if t.Name != topic {
			continue
		}
		if t.Error != nil {
			return 0, fmt.Errorf("read metadata of topic %q: %w", topic, t.Error)
		}
		if len(t.Partitions) > 0 {
			return len(t.Partitions), nil
		}
	}
	return 0, fmt.Errorf("read metadata of topic %q: %w", topic, kafka.UnknownTopicOrPartition)
}

// Header is a name and value beside a message's body.
type Header struct {
	Key   string
	Value []byte
}

// Message is one Kafka record.
type Message struct {
	Topic   string
	Key     []byte
	Value   []byte
	Headers []Header

	// Partition and Offset are the message's place; Produce sets them on
	// acknowledged messages.
	Partition int
	Offset    int64

	// Time is the record's timestamp, see the package comment. Produce sets it,
	// with the embedded broker to when it was called.
	Time time.Time
	// FetchedAt is when this process received the message, on its own clock.
	FetchedAt time.Time

	// Hole is what was deleted just before this message and after the one
	// before it (or after the committed offset); nil: nothing.
	Hole *Hole

	// Bad says why the message can't be used as it is; nil: it can.
	Bad *Unreadable
}

// Next is the offset behind the message: one more than Offset, unless it stands
// for a batch that can't be read.
func (m *Message) Next() int64 {
	if m.Bad != nil && m.Bad.To > 0 {
		return m.Bad.To
	}
	return m.Offset + 1
}

// sizeBytes is the message's size as the limits count it: key, value, headers.
func (m *Message) sizeBytes() int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Hole is a run of offsets [From, To) of a partition that can't be read any
// more, as a rule because retention deleted them before they were fetched (C3).
// It begins at the committed offset where the group starts, so a consumer that
// journals before it commits may find some of it journalled already.
type Hole struct {
	Partition int
	From      int64
	To        int64
}

// Count is the number of offsets in the hole.
func (h Hole) Count() int64 { return h.To - h.From }

func (h Hole) String() string {
	return fmt.Sprintf("partition %d offsets [%d, %d)", h.Partition, h.From, h.To)
}

// metrics are shared between the clients of one registry: standalone runs several
// in one process.
type metrics struct {
	produced, producedBytes, retries *prometheus.CounterVec // by topic
	fetched, fetchedBytes            *prometheus.CounterVec // by topic and group
	holes, rebalances                *prometheus.CounterVec // by topic and group
	errors                           *prometheus.CounterVec // by operation
	produceTime                      *prometheus.HistogramVec
	lag                              *prometheus.GaugeVec // by topic, group and partition
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := telemetry.Shared(reg, "gputally_broker_")
	return &metrics{
		produced:      s.Counters("produced_messages_total", "Messages acknowledged by the broker.", "topic"),
		producedBytes: s.Counters("produced_bytes_total", "Key, value and header bytes of acknowledged messages.", "topic"),
		retries:       s.Counters("produce_retries_total", "Produce requests sent again after an error.", "topic"),
		fetched:       s.Counters("fetched_messages_total", "Messages handed to the consumer.", "topic", "group"),
		fetchedBytes: s.Counters("fetched_bytes_total", "Key, value and header bytes of fetched messages.",
			"topic", "group"),
		holes: s.Counters("hole_offsets_total", "Offsets skipped because the broker no longer had them.",
			"topic", "group"),
		rebalances: s.Counters("rebalances_total", "Generations of the group this consumer joined.", "topic", "group"),
		errors:     s.Counters("errors_total", "Failed requests and refused messages, by operation.", "operation"),
		produceTime: s.Histograms("produce_seconds", "Time from a produce call to its last acknowledgement.",
			prometheus.ExponentialBuckets(0.001, 2, 16)),
		lag: s.Gauges("consumer_lag_messages", "Messages between the position fetched last and the end of the partition.",
			"topic", "group", "partition"),
	}
}

func (m *metrics) setLag(f *fetcher, lag int64) {
	m.lag.WithLabelValues(f.topic, f.group, strconv.Itoa(f.partition)).Set(float64(lag))
}

func (m *metrics) dropLag(f *fetcher) {
	m.lag.DeleteLabelValues(f.topic, f.group, strconv.Itoa(f.partition))
}
