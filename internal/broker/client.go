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

// NewClient makes a client without connecting.
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

// dialFunc opens a connection for kafka-go.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

const (
	// unixScheme is the prefix of the address of a broker on a Unix socket.
	unixScheme = "unix:"
	// behindSocket is the host and port given to kafka-go and kfake for a broker on a Unix socket; it is never
	// dialled.
	behindSocket = "localhost:9092"
)

// dialing returns the addresses for kafka-go and the function that dials them. A broker on a Unix socket must be the
// only one: every connection goes to the socket, whatever address the broker's metadata gives.
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

// Close drops idle connections. Close the client's consumers first.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// request returns a context bounded by RequestTimeout, for one round trip to a broker.
func (c *Client) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.RequestTimeout)
}

// partitionCount returns the number of a topic's partitions; the transport caches it for some seconds.
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

	// Partition and Offset locate the message; Produce sets them on acknowledged messages.
	Partition int
	Offset    int64

	// Time is the record's timestamp (see the package comment). Produce sets it; with the embedded broker, to the
	// time of the call.
	Time time.Time
	// FetchedAt is when this process received the message, by its own clock.
	FetchedAt time.Time

	// Hole lists the offsets deleted between the previous message (or the committed offset) and this one; nil: none.
	Hole *Hole

	// Bad is the reason why the message can't be processed; nil: it can.
	Bad *Unreadable
}

// Next is the next offset to read: Offset + 1, or the end of the batch if the message represents an unreadable batch.
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

// Hole is a range of offsets [From, To) of a partition that can no longer be read, usually because retention deleted
// them before they were fetched (C3). It begins at the committed offset where the group started, so a consumer that
// writes its journal before it commits may find part of the hole in the journal already.
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

// metrics are shared between the clients of one registry: standalone runs several clients in one process.
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
