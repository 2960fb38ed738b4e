package broker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/clock"
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
	config = config.withDefaults()
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
