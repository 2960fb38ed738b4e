package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/clock"
)

// Producer writes messages. It is safe for concurrent use and needs no Close. kafkago.go explains why it doesn't use
// kafka-go's Writer.
type Producer struct {
	client *Client
	hash   kafka.Murmur2Balancer
}

// Producer makes a producer: acks=all, zstd, partition = murmur2(key), the
// partitioner of Kafka's own clients.
func (c *Client) Producer() *Producer {
	return &Producer{client: c, hash: kafka.Murmur2Balancer{Consistent: true}}
}

// ErrRefused marks messages that can't be delivered: too large or invalid.
var ErrRefused = errors.New("message refused")

// ProduceError lists the messages of a Produce call that were not acknowledged.
type ProduceError struct {
	// Errs has one entry per message of the call; nil: acknowledged. With ErrRefused, the message would fail again;
	// with any other error, another attempt may succeed, and the message may even have been written.
	Errs []error
}

// Failed counts the messages that were not acknowledged.
func (e *ProduceError) Failed() int { return len(e.Unwrap()) }

func (e *ProduceError) Error() string {
	first := slices.IndexFunc(e.Errs, func(err error) bool { return err != nil })
	if first < 0 {
		return "produce: no message failed"
	}
	return fmt.Sprintf("produce: %d of %d messages not acknowledged, first message %d: %v", e.Failed(), len(e.Errs),
		first, e.Errs[first])
}

// Unwrap returns the failures, for errors.Is and errors.As.
func (e *ProduceError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return err == nil })
}

// Produce writes msgs and returns when each is acknowledged or refused, or ctx has ended; until then it retries. It
// sets Partition, Offset and Time on acknowledged messages. The error, if any, is a *ProduceError. Messages of one
// key are written in the order given.
func (p *Producer) Produce(ctx context.Context, msgs []Message) error {
	c := p.client
	start := c.clock.Now()
	result := &ProduceError{Errs: make([]error, len(msgs))}
	var wg sync.WaitGroup
	for target, indexes := range p.assign(ctx, msgs, result.Errs) {
		call := produceCall{client: c, target: target, at: start, msgs: msgs, errs: result.Errs}
		wg.Go(func() { call.sendAll(ctx, indexes) })
	}
	wg.Wait()
	c.metrics.produceTime.WithLabelValues().Observe(c.clock.Since(start).Seconds())
	failed := result.Failed()
	if failed == 0 {
		return nil
	}
	c.metrics.errors.WithLabelValues("produce").Add(float64(failed))
	return result
}

type topicPartition struct {
	topic     string
	partition int
}

// assign groups the messages' indexes by partition, and sets errs for those that can't be sent.
func (p *Producer) assign(ctx context.Context, msgs []Message, errs []error) map[topicPartition][]int {
	queues, partitions := map[topicPartition][]int{}, map[string][]int{}
	for i := range msgs {
		m := &msgs[i]
		if errs[i] = p.check(m); errs[i] != nil {
			continue
		}
		if _, ok := partitions[m.Topic]; !ok {
			n, err := p.awaitPartitions(ctx, m.Topic)
			if errs[i] = err; err != nil {
				continue
			}
			partitions[m.Topic] = upTo(n)
		}
		m.Partition = p.hash.Balance(kafka.Message{Key: m.Key}, partitions[m.Topic]...)
		target := topicPartition{m.Topic, m.Partition}
		queues[target] = append(queues[target], i)
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

// pause waits before the next attempt. If ctx ends first, it returns an error that wraps ctx's and the cause.
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

// produceCall is one partition's share of a Produce call. Calls for different partitions use different entries of
// msgs and errs.
type produceCall struct {
	client *Client
	target topicPartition
	at     time.Time
	msgs   []Message
	errs   []error
}

// sendAll sends the messages of the given indexes in order, in requests within the configured bounds.
func (p *produceCall) sendAll(ctx context.Context, indexes []int) {
	config := &p.client.config
	for len(indexes) > 0 {
		n, size := 0, 0
		for n < len(indexes) && n < config.BatchMessages {
			size += p.msgs[indexes[n]].sizeBytes()
			if n > 0 && size > config.BatchBytes {
				break
			}
			n++
		}
		p.send(ctx, indexes[:n])
		indexes = indexes[n:]
	}
}

// send repeats one request until it is acknowledged or refused, or ctx ends. A refused request is halved until the
// refused message is alone.
func (p *produceCall) send(ctx context.Context, indexes []int) {
	var cause error
	for attempt := 0; ; attempt++ {
		err := p.request(ctx, indexes)
		if err == nil {
			return
		}
		if refused(err) {
			if half := len(indexes) / 2; half > 0 {
				p.send(ctx, indexes[:half])
				p.send(ctx, indexes[half:])
				return
			}
			p.errs[indexes[0]] = fmt.Errorf("broker answered %w: %w", err, ErrRefused)
			return
		}
		if attempt > 0 || ctx.Err() == nil {
			p.client.metrics.retries.WithLabelValues(p.target.topic).Inc()
		}
		if cause == nil || ctx.Err() == nil {
			cause = err // an end of ctx during an attempt is not the cause
		}
		if err := p.client.pause(ctx, attempt, "produce", cause, "topic", p.target.topic, "partition",
			p.target.partition); err != nil {
			for _, i := range indexes {
				p.errs[i] = err
			}
			return
		}
	}
}

// request sends one request. Every message of a call has the same time, so that the time that the embedded broker
// sets on the batch is the time of each.
func (p *produceCall) request(ctx context.Context, indexes []int) error {
	c := p.client
	ctx, cancel := c.request(ctx)
	defer cancel()
	records := make([]kafka.Record, len(indexes))
	for n, i := range indexes {
		m := &p.msgs[i]
		records[n] = kafka.Record{Time: p.at, Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Value)}
		for _, h := range m.Headers {
			records[n].Headers = append(records[n].Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
	}
	res, err := c.kafka.Produce(ctx, &kafka.ProduceRequest{
		Topic:        p.target.topic,
		Partition:    p.target.partition,
		RequiredAcks: kafka.RequireAll,
		Compression:  kafka.Zstd,
		Records:      kafka.NewRecordReader(records...),
	})
	if err != nil {
		return err
	}
	if res.Error != nil {
		return res.Error
	}
	at, bytes := p.at, 0
	if !res.LogAppendTime.IsZero() {
		at = res.LogAppendTime
	}
	for n, i := range indexes {
		m := &p.msgs[i]
		m.Offset, m.Time = res.BaseOffset+int64(n), at
		bytes += m.sizeBytes()
	}
	c.metrics.produced.WithLabelValues(p.target.topic).Add(float64(len(indexes)))
	c.metrics.producedBytes.WithLabelValues(p.target.topic).Add(float64(bytes))
	return nil
}

// permanent lists the errors that a repeated request can't avoid. All others are retried, even those that kafka-go
// considers permanent: a full disk of the embedded broker is answered with UNKNOWN_SERVER_ERROR.
var permanent = []kafka.Error{
	kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidMessageSize, kafka.InvalidTopic,
	kafka.InvalidTimestamp, kafka.UnsupportedForMessageFormat, kafka.InvalidRecord,
}

func refused(err error) bool {
	return slices.ContainsFunc(permanent, func(code kafka.Error) bool { return errors.Is(err, code) })
}
