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

// ConsumerOptions tunes a consumer; zero values take the defaults.
type ConsumerOptions struct {
	// SessionTimeout is how long a member that stopped sending heartbeats keeps its partitions. Default 6 s, the
	// shortest that Apache Kafka accepts unless configured otherwise.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long a rebalance waits for members. Default 10 s.
	RebalanceTimeout time.Duration
	// MinBytes is the size a fetch waits for, for at most MaxWait. Defaults 1 byte and 500 ms.
	MinBytes int
	MaxWait  time.Duration
	// MaxBytes bounds one fetch per partition, compressed. Default 4 MiB; a larger batch still arrives, alone.
	MaxBytes int
	// EveryOffset returns a transaction's marker as an unreadable message instead of reporting it as a hole.
	EveryOffset bool
}

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	return withDefaults(o, ConsumerOptions{
		SessionTimeout: 6 * time.Second, RebalanceTimeout: 10 * time.Second, MinBytes: 1, MaxWait: 500 * time.Millisecond,
		MaxBytes: 4 << 20,
	})
}

// ErrNotAssigned means that the messages' partition was assigned to another member or generation of the group before
// the commit. Its new owner fetches the messages again: continue, the journal drops the copies. A commit that got no
// answer, for example because the broker restarted, returns this error, too.
var ErrNotAssigned = errors.New("partition no longer assigned to this consumer")

// ErrClosed is returned by Fetch on a closed consumer.
var ErrClosed = errors.New("consumer closed")

// OffsetError means that the group's committed offset is beyond the end of the partition: the topic was recreated, or
// the broker lost acknowledged messages. The consumer stops, since continuing would hide the loss; an operator must
// decide.
type OffsetError struct {
	Topic     string
	Group     string
	Partition int
	Offset    int64 // the group's next offset
	Last      int64 // the end of the partition
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf(
		"group %s committed offset %d of topic %s partition %d, which ends at %d: the topic was recreated or lost messages",
		e.Group, e.Offset, e.Topic, e.Partition, e.Last)
}

// generation is one assignment of partitions to this member. Unread messages are dropped when it ends: the next owner
// starts at the committed offset.
type generation struct {
	kafka    *kafka.Generation
	starts   map[int]int64
	arriving chan []Message
	pending  []Message // used by Fetch only
}

func newGeneration(g *kafka.Generation, topic string) *generation {
	gen := &generation{kafka: g, starts: map[int]int64{}, arriving: make(chan []Message)}
	for _, a := range g.Assignments[topic] {
		gen.starts[a.ID] = a.Offset
	}
	return gen
}

// take returns up to limit messages that have arrived, without waiting.
func (g *generation) take(limit int) []Message {
	for len(g.pending) < limit {
		select {
		case msgs := <-g.arriving:
			g.pending = append(g.pending, msgs...)
			continue
		default:
		}
		break
	}
	return take(&g.pending, limit)
}

// commit commits the next offsets to read, by partition. It refuses an offset before the generation's start, which
// would move the group back.
func (g *generation) commit(topic string, next map[int]int64) error {
	if g == nil {
		return ErrNotAssigned
	}
	for partition, offset := range next {
		if start, ok := g.starts[partition]; !ok || offset < start {
			return fmt.Errorf("partition %d offset %d: %w", partition, offset, ErrNotAssigned)
		}
	}
	err := g.kafka.CommitOffsets(map[string]map[int]int64{topic: next})
	if err == nil {
		return nil
	}
	// Without an answer the connection of the generation is lost, which ends the generation.
	var code kafka.Error
	if !errors.As(err, &code) || code == kafka.IllegalGeneration || code == kafka.UnknownMemberId ||
		code == kafka.RebalanceInProgress {
		return fmt.Errorf("%w: %w", ErrNotAssigned, err)
	}
	return err
}

// Consumer is one member of a consumer group on one topic. Fetch may be called
// by one goroutine at a time; Commit and Close by any.
type Consumer struct {
	client *Client
	group  string
	topic  string
	opt    ConsumerOptions
	member *kafka.ConsumerGroup
	dealt  *dealt

	fetching sync.Mutex
	mu       sync.Mutex
	gen      *generation
	changed  chan struct{} // closed and replaced whenever gen is set
	fatal    error
	closed   bool
	joining  context.CancelFunc
	done     chan struct{}
}

// Consumer joins group on topic. A group without a committed offset starts at
// the oldest message.
func (c *Client) Consumer(group, topic string, opt ConsumerOptions) (*Consumer, error) {
	opt = opt.withDefaults()
	logf := func(format string, args ...any) {
		c.log.Debug(fmt.Sprintf(format, args...), "group", group, "topic", topic)
	}
	dealt := &dealt{topic: topic}
	member, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:      group,
		Brokers: c.addresses,
		Topics:  []string{topic},
		Dialer: &kafka.Dialer{
			ClientID: c.config.ClientID, Timeout: c.config.DialTimeout, DualStack: true,
			TLS: c.config.TLS, SASLMechanism: c.config.SASL, DialFunc: c.dial,
		},
		HeartbeatInterval: min(3*time.Second, opt.SessionTimeout/3),
		SessionTimeout:    opt.SessionTimeout,
		RebalanceTimeout:  opt.RebalanceTimeout,
		JoinGroupBackoff:  c.config.RetryMax,
		GroupBalancers:    dealt.balancers(),
		StartOffset:       kafka.FirstOffset,
		Timeout:           c.config.RequestTimeout,
		ErrorLogger:       kafka.LoggerFunc(logf),
	})
	if err != nil {
		return nil, fmt.Errorf("join group %q on topic %q: %w", group, topic, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	consumer := &Consumer{
		client: c, group: group, topic: topic, opt: opt, member: member, dealt: dealt,
		changed: make(chan struct{}), joining: cancel, done: make(chan struct{}),
	}
	go consumer.join(ctx)
	return consumer, nil
}

// join joins the group again after each generation ends, until ctx ends.
func (c *Consumer) join(ctx context.Context) {
	defer close(c.done)
	for {
		next, err := c.member.Next(ctx)
		if ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil {
			c.client.metrics.errors.WithLabelValues("join_group").Inc()
			c.client.log.Warn("joining the group failed, trying again", "group", c.group, "topic", c.topic, "err", err)
			continue
		}
		c.client.metrics.rebalances.WithLabelValues(c.topic, c.group).Inc()
		gen := newGeneration(next, c.topic)
		c.setGeneration(gen)
		// The number is this generation's unless the generation has ended already.
		if n := c.dealt.count.Load(); n != notLeader {
			next.Start(func(ctx context.Context) { c.watch(ctx, n) })
		}
		for partition, offset := range gen.starts {
			f := &fetcher{
				client: c.client, topic: c.topic, group: c.group, partition: partition, opt: c.opt, next: offset,
				at: offset,
			}
			next.Start(func(ctx context.Context) { c.follow(ctx, f, gen.arriving) })
		}
	}
}

// follow passes on the messages of a partition until ctx ends.
func (c *Consumer) follow(ctx context.Context, f *fetcher, arriving chan<- []Message) {
	defer c.client.metrics.dropLag(f)
	for {
		msgs, err := f.more(ctx, everything)
		var lost *OffsetError
		if errors.As(err, &lost) {
			c.fail(lost)
		}
		if err != nil {
			return
		}
		select {
		case arriving <- msgs:
		case <-ctx.Done():
			return
		}
	}
}

// watch returns, which ends the generation, when the number of the topic's partitions differs from what the leader
// assigned.
func (c *Consumer) watch(ctx context.Context, dealt int64) {
	for clock.Sleep(ctx, c.client.clock, watchInterval) == nil {
		n, err := c.client.partitionCount(ctx, c.topic)
		if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
			continue // the fetchers report the error
		}
		if int64(n) != dealt {
			c.client.log.Info("number of partitions changed, joining the group again",
				"group", c.group, "topic", c.topic, "partitions", n, "assigned", dealt)
			return
		}
	}
}

func (c *Consumer) setGeneration(gen *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen = gen
	c.signal()
}

// signal wakes the goroutines that wait for a change; the caller holds the lock.
func (c *Consumer) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = err
		c.signal()
	}
}

func (c *Consumer) state() (gen *generation, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	return c.gen, c.changed, c.fatal
}

// Fetch returns up to limit messages: those that have arrived or, after waiting at most wait for the first, an empty
// slice and no error. Within a partition they come in offset order; after a rebalance, again from the committed
// offset. Errors: ctx's, ErrClosed, *OffsetError.
func (c *Consumer) Fetch(ctx context.Context, limit int, wait time.Duration) ([]Message, error) {
	c.fetching.Lock()
	defer c.fetching.Unlock()
	timer := c.client.clock.NewTimer(wait)
	defer timer.Stop()
	for {
		gen, changed, err := c.state()
		if err != nil {
			return nil, err
		}
		var arriving <-chan []Message
		if gen != nil {
			if msgs := gen.take(max(limit, 1)); len(msgs) > 0 {
				c.count(msgs)
				return msgs, nil
			}
			arriving = gen.arriving
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("fetch from topic %q: %w", c.topic, ctx.Err())
		case <-timer.C():
			return nil, nil
		case <-changed:
		case msgs := <-arriving:
			gen.pending = append(gen.pending, msgs...)
		}
	}
}

func (c *Consumer) count(msgs []Message) {
	bytes := 0
	for i := range msgs {
		bytes += msgs[i].sizeBytes()
		if hole := msgs[i].Hole; hole != nil {
			c.client.metrics.holes.WithLabelValues(c.topic, c.group).Add(float64(hole.Count()))
			c.client.log.Error("messages were deleted before they were read",
				"topic", c.topic, "group", c.group, "partition", hole.Partition, "from", hole.From, "to", hole.To)
		}
	}
	c.client.metrics.fetched.WithLabelValues(c.topic, c.group).Add(float64(len(msgs)))
	c.client.metrics.fetchedBytes.WithLabelValues(c.topic, c.group).Add(float64(bytes))
}

// Commit commits the offsets behind msgs, the last message of each partition. The error is ErrNotAssigned if a
// partition has been assigned to another member.
func (c *Consumer) Commit(ctx context.Context, msgs []Message) error {
	if len(msgs) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", c.group, err)
	}
	next := map[int]int64{}
	for i := range msgs {
		next[msgs[i].Partition] = max(next[msgs[i].Partition], msgs[i].Next())
	}
	gen, _, err := c.state()
	if err == nil {
		err = gen.commit(c.topic, next)
	}
	if err != nil {
		c.client.metrics.errors.WithLabelValues("commit").Inc()
		return fmt.Errorf("commit offsets %v of group %q: %w", next, c.group, err)
	}
	return nil
}

// Close leaves the group, so that other members take over at once.
func (c *Consumer) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.signal()
	c.mu.Unlock()
	c.joining()
	err := c.member.Close()
	<-c.done
	return err
}
