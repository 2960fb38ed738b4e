package broker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func startBroker(tb testing.TB, dir string) *Embedded {
	tb.Helper()
	return startWith(tb, EmbeddedOptions{Dir: dir, RetentionCheck: 20 * time.Millisecond})
}

func startWith(tb testing.TB, opt EmbeddedOptions) *Embedded {
	tb.Helper()
	opt.Log, opt.MinSessionTimeout = quiet(), 100*time.Millisecond
	e, err := StartEmbedded(opt)
	if err != nil {
		tb.Fatalf("StartEmbedded: %v", err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// newSocket is an address that outlives a broker.
func newSocket(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "gputally-") // t.TempDir may be too long
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return unixScheme + filepath.Join(dir, "kafka.sock")
}

// foreignDoor lets in clients that aren't ours: on TCP, with every key that kfake
// knows.
func foreignDoor(address string) (*door, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cmp.Or(address, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	d := newDoor(listener, EmbeddedOptions{Log: quiet()})
	d.address, d.keys = listener.Addr(), map[int16]versions{}
	for key := range int16(100) {
		if req := kmsg.RequestForKey(key); req != nil {
			d.keys[key] = versions{0, req.MaxVersion()}
		}
	}
	return d.open(), nil
}

func newTestClient(tb testing.TB, addr string, change func(*Config)) *Client {
	tb.Helper()
	config := DefaultConfig()
	config.Brokers = []string{addr}
	config.RetryMin, config.RetryMax = time.Millisecond, 20*time.Millisecond
	config.Registerer = prometheus.NewRegistry()
	if change != nil {
		change(&config)
	}
	if err := config.Validate(); err != nil {
		tb.Fatal(err)
	}
	c := NewClient(config, quiet())
	tb.Cleanup(c.Close)
	return c
}

func ensure(tb testing.TB, c *Client) {
	tb.Helper()
	if err := c.EnsureTopics(testContext(tb)); err != nil {
		tb.Fatalf("EnsureTopics: %v", err)
	}
}

func join(tb testing.TB, c *Client, group string) *Consumer {
	tb.Helper()
	consumer, err := c.Consumer(group, TopicSamples, ConsumerOptions{
		SessionTimeout: 2 * time.Second, RebalanceTimeout: 2 * time.Second, MaxWait: 20 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = consumer.Close() })
	return consumer
}

func samples(from, to int) []Message {
	var msgs []Message
	for i := from; i < to; i++ {
		msgs = append(msgs, Message{
			Topic: TopicSamples, Key: fmt.Appendf(nil, "node-%d", i%16), Value: fmt.Appendf(nil, "value-%d", i),
			Headers: []Header{{Key: "seq", Value: fmt.Append(nil, i)}},
		})
	}
	return msgs
}

// fetchCount fetches until n messages are there.
func fetchCount(tb testing.TB, c *Consumer, n int) []Message {
	tb.Helper()
	ctx := testContext(tb)
	var all []Message
	for len(all) < n {
		msgs, err := c.Fetch(ctx, n-len(all), time.Second)
		if err != nil {
			tb.Fatalf("Fetch after %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, msgs...)
	}
	return all
}

func values(msgs []Message) []string {
	out := make([]string, 0, len(msgs))
	for _, m := range msgs {
		out = append(out, string(m.Value))
	}
	return out
}

var anyOrder = cmpopts.SortSlices(strings.Compare)

func pauseBriefly(tb testing.TB) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-tb.Context().Done():
	}
}
