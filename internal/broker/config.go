package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/gputally/gputally/internal/clock"
)

// Config has the brokers' addresses and the settings of topics and requests. Zero values take the defaults of
// DefaultConfig, except Brokers.
type Config struct {
	Brokers  []string // host:port; or a single unix: and the path of a socket
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

// batchOverheadBytes is the most that headers and compression of incompressible data add to the messages' bytes.
const batchOverheadBytes = 64 << 10

// DefaultConfig returns every default; Brokers has none.
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

// withDefaults returns given with its zero fields replaced by those of defaults.
func withDefaults[T any](given, defaults T) T {
	to, from := reflect.ValueOf(&given).Elem(), reflect.ValueOf(&defaults).Elem()
	for i := range to.NumField() {
		if field := to.Field(i); field.CanSet() && field.IsZero() {
			field.Set(from.Field(i))
		}
	}
	return given
}

// Validate returns an error for each invalid field, with its value.
func (c Config) Validate() error {
	c = withDefaults(c, DefaultConfig())
	var errs []error
	want := func(ok bool, field string, value any, wanted string) {
		if !ok {
			errs = append(errs, fmt.Errorf("broker config: %s is %v, want %s", field, value, wanted))
		}
	}
	want(len(c.Brokers) > 0, "brokers", "empty", "at least one host:port")
	for _, b := range c.Brokers {
		if strings.HasPrefix(b, unixScheme) {
			want(len(c.Brokers) == 1, "brokers", fmt.Sprintf("%q", c.Brokers), "one broker where it is behind a Unix socket")
			continue
		}
		_, _, err := net.SplitHostPort(b)
		want(err == nil, "brokers", fmt.Sprintf("%q", b), "host:port, or unix: and a path")
	}
	want(c.SamplesPartitions >= 1, "samples_partitions", c.SamplesPartitions, "1 or more")
	want(c.ReplicationFactor >= -1, "replication_factor", c.ReplicationFactor, "-1 or 1 or more")
	want(c.MaxMessageBytes >= 1, "max_message_bytes", c.MaxMessageBytes, "1 or more")
	want(c.BatchBytes >= 1, "batch_bytes", c.BatchBytes, "1 or more")
	want(c.BatchMessages >= 1, "batch_messages", c.BatchMessages, "1 or more")
	want(c.SamplesRetention >= time.Millisecond, "samples_retention", c.SamplesRetention, "1ms or more")
	want(c.DeadLetterRetention >= time.Millisecond, "dead_letter_retention", c.DeadLetterRetention, "1ms or more")
	want(c.RequestTimeout >= time.Millisecond, "request_timeout", c.RequestTimeout, "1ms or more")
	want(c.DialTimeout >= time.Millisecond, "dial_timeout", c.DialTimeout, "1ms or more")
	want(c.RetryMin >= time.Millisecond, "retry_min", c.RetryMin, "1ms or more")
	want(c.RetryMax >= c.RetryMin, "retry_max", c.RetryMax, "at least retry_min "+c.RetryMin.String())
	return errors.Join(errs...)
}
