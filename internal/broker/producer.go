package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/clock"
)

// Producer writes messages. It is safe for concurrent use and needs no Close.
type Producer struct {
	client *Client
	hash   kafka.Murmur2Balancer
}

// Producer makes a producer: acks=all, zstd, partition = murmur2(key), the
// partitioner of Kafka's own clients.
func (c *Client) Producer() *Producer {
	return &Producer{client: c, hash: kafka.Murmur2Balancer{Consistent: true}}
}

// ErrRefused marks messages that no attempt can deliver: oversize or invalid.
var ErrRefused = errors.New("message refused")

// ProduceError says which messages of a Produce call were not acknowledged.
type ProduceError struct {
	// Errs has one entry per message of the call; nil: acknowledged. An entry
	// that is ErrRefused will fail again; any other may succeed, and the message
	// may even be there already.
	Errs []error
}

// Failed counts the messages that were not acknowledged.
func (e *ProduceError) Failed() int {
	n := 0
	for _, err := range e.Errs {
		if err != nil {
			n++
		}
	}
	return n
}

func (e *ProduceError) Error() string {
	for i, err := range e.Errs {
		if err != nil {
			return fmt.Sprintf("produce: %d of %d messages not acknowledged, first message %d: %v", e.Failed(), len(e.Errs), i, err)
		}
	}
	return "produce: no message failed"
}

// Unwrap gives errors.Is and errors.As the distinct failures.
func (e *ProduceError) Unwrap() []error {
	var out []error
	for _, err := range e.Errs {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Produce writes msgs and returns when each is acknowledged, refused, or ctx has
// ended: what is neither oversize nor invalid is tried until then. It sets
// Partition, Offset and Time on acknowledged messages. The error, if
// any, is a *ProduceError. Messages of one key are written in the order given.
func (p *Producer) Produce(ctx context.Context, msgs []Message) error {
	c := p.client
	start := c.clock.Now()
	errs := make([]error, len(msgs))
	queues := p.assign(ctx, msgs, errs)
	var wg sync.WaitGroup
	for tp, indexes := range queues {
		wg.Go(func() {
			call := produceCall{producer: p, target: tp, at: start, msgs: msgs, errs: errs}
			call.sendAll(ctx, indexes)
		})
	}
	wg.Wait()
	c.metrics.produceTime.WithLabelValues().Observe(c.clock.Since(start).Seconds())
	result := &ProduceError{Errs: errs}
	failed := result.Failed()
	if failed == 0 {
		return nil
	}
	c.metrics.errors.WithLabelValues("produce").Add(float64(failed))
	return result
}

// assign sorts the messages' indexes by partition, and settles in errs those
// that can't be sent.
func (p *Producer) assign(ctx context.Context, msgs []Message, errs []error) map[topicPartition][]int {
	queues := map[topicPartition][]int{}
	partitions := map[string][]int{}
	for i := range msgs {
		m := &msgs[i]
		if err := p.check(m); err != nil {
			errs[i] = err
			continue
		}
		if _, ok := partitions[m.Topic]; !ok {
			n, err := p.awaitPartitions(ctx, m.Topic)
			if err != nil {
				errs[i] = err
				continue
			}
			partitions[m.Topic] = make([]int, n)
			for j := range n {
				partitions[m.Topic][j] = j
			}
		}
		m.Partition = p.hash.Balance(kafka.Message{Key: m.Key}, partitions[m.Topic]...)
		tp := topicPartition{m.Topic, m.Partition}
		queues[tp] = append(queues[tp], i)
	}
	return queues
}

func (p *Producer) check(m *Message) error {
	if m.Topic == "" {
		return fmt.Errorf("topic is empty: %w", ErrRefused)
	}
	if n, limit := m.sizeBytes(), p.client.config.MaxMessageBytes; n > limit {
		return fmt.Errorf("message of key %q has %d bytes, limit %d: %w", m.Key, n, limit, ErrRefused)
	}
	return nil
}

func (p *Producer) awaitPartitions(ctx context.Context, topic string) (int, error) {
	for attempt := 0; ; attempt++ {
		n, err := p.client.partitionCount(ctx, topic)
		if err == nil {
			return n, nil
		}
		if errors.Is(err, kafka.InvalidTopic) {
			return 0, errors.Join(err, ErrRefused)
		}
		if err := p.client.pause(ctx, attempt, "find partitions", err, "topic", topic); err != nil {
			return 0, err
		}
	}
}

// pause waits before the next attempt. It returns an error that wraps ctx's and
// names the cause when ctx ends first.
func (c *Client) pause(ctx context.Context, attempt int, what string, cause error, attrs ...any) error {
	if ctx.Err() == nil {
		delay := min(c.config.RetryMin<<min(attempt, 10), c.config.RetryMax)
		c.log.Warn(what+" failed, trying again",
			append(attrs, "attempt", attempt+1, "delay", delay.Round(time.Millisecond), "err", cause)...)
		if clock.Sleep(ctx, c.clock, delay) == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %w (last attempt: %w)", what, ctx.Err(), cause)
}
