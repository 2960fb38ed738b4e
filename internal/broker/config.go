package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/gputally/gputally/internal/clock"
)

// Config says how to reach the brokers and what the topics must be like. Zero
// values take the defaults of DefaultConfig, Brokers excepted.
type Config struct {
	Brokers  []string // host:port; or one alone, unix: and the path of its socket
	ClientID string
	TLS      *tls.Config    // nil: plain text
	SASL     sasl.Mechanism // nil: no authentication

	// SamplesPartitions is the partition count of a new samples topic.
	SamplesPartitions int
	// ReplicationFactor of new topics; -1: the broker's default.
	ReplicationFactor int
	// SamplesRetention and DeadLetterRetention are retention.ms of new topics.
	SamplesRetention    time.Duration
	DeadLetterRetention time.Duration
	// SamplesRetentionBytes is retention.bytes of a new samples topic, per
	// partition; -1: unlimited.
	SamplesRetentionBytes int64

	// MaxMessageBytes bounds key, value and headers of one message; a larger one
	// is refused before it is sent.
	MaxMessageBytes int
	// BatchBytes and BatchMessages bound one produce request, before compression.
	BatchBytes    int
	BatchMessages int
	// RequestTimeout bounds one request to a broker, DialTimeout one connect.
	RequestTimeout time.Duration
	DialTimeout    time.Duration
	// RetryMin and RetryMax bound the pause between two attempts; it doubles.
	RetryMin time.Duration
	RetryMax time.Duration

	Registerer prometheus.Registerer // nil: metrics are kept but not exposed
	Clock      clock.Clock           // nil: the real one
}

// batchOverheadBytes is what a record batch and its records may add to the
// messages' own bytes, incompressible data included.
const batchOverheadBytes = 64 << 10

// DefaultConfig is what the house uses unless told otherwise. Brokers is empty.
func DefaultConfig() Config {
	return Config{
		ClientID:              "gputally",
		SamplesPartitions:     4,
		ReplicationFactor:     -1,
		SamplesRetention:      7 * 24 * time.Hour,
		DeadLetterRetention:   30 * 24 * time.Hour,
		SamplesRetentionBytes: -1,
		MaxMessageBytes:       10 << 20,
		BatchBytes:            1 << 20,
		BatchMessages:         10_000,
		RequestTimeout:        10 * time.Second,
		DialTimeout:           5 * time.Second,
		RetryMin:              50 * time.Millisecond,
		RetryMax:              2 * time.Second,
		Clock:                 clock.Real(),
	}
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	orDefault(&c.ClientID, d.ClientID)
	orDefault(&c.SamplesPartitions, d.SamplesPartitions)
	orDefault(&c.ReplicationFactor, d.ReplicationFactor)
	orDefault(&c.SamplesRetention, d.SamplesRetention)
	orDefault(&c.DeadLetterRetention, d.DeadLetterRetention)
	orDefault(&c.SamplesRetentionBytes, d.SamplesRetentionBytes)
	orDefault(&c.MaxMessageBytes, d.MaxMessageBytes)
	orDefault(&c.BatchBytes, d.BatchBytes)
	orDefault(&c.BatchMessages, d.BatchMessages)
	orDefault(&c.RequestTimeout, d.RequestTimeout)
	orDefault(&c.DialTimeout, d.DialTimeout)
	orDefault(&c.RetryMin, d.RetryMin)
	orDefault(&c.RetryMax, d.RetryMax)
	orDefault(&c.Clock, d.Clock)
	return c
}

// Validate reports every field that can't work, with its value.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("broker config: %s is %v, want %s", field, value, want))
	}
	if len(c.Brokers) == 0 {
		bad("brokers", "empty", "at least one host:port")
	}
	for _, b := range c.Brokers {
		if strings.HasPrefix(b, unixScheme) {
			if len(c.Brokers) > 1 {
				bad("brokers", fmt.Sprintf("%q", c.Brokers), "one broker where it is behind a Unix socket")
			}
			continue
		}
		if _, _, err := net.SplitHostPort(b); err != nil {
			bad("brokers", fmt.Sprintf("%q", b), "host:port, or unix: and a path")
		}
	}
	for field, n := range map[string]int{
		"samples_partitions": c.SamplesPartitions,
		"max_message_bytes":  c.MaxMessageBytes,
		"batch_bytes":        c.BatchBytes,
		"batch_messages":     c.BatchMessages,
	} {
		if n < 1 {
			bad(field, n, "1 or more")
		}
	}
	if c.ReplicationFactor < -1 {
		bad("replication_factor", c.ReplicationFactor, "-1 or 1 or more")
	}
	for field, d := range map[string]time.Duration{
		"samples_retention":     c.SamplesRetention,
		"dead_letter_retention": c.DeadLetterRetention,
		"request_timeout":       c.RequestTimeout,
		"dial_timeout":          c.DialTimeout,
		"retry_min":             c.RetryMin,
	} {
		if d < time.Millisecond {
			bad(field, d, "1ms or more")
		}
	}
	if c.RetryMax < c.RetryMin {
		bad("retry_max", c.RetryMax, "at least retry_min "+c.RetryMin.String())
	}
	return errors.Join(errs...)
}
