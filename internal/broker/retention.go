package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gputally/gputally/internal/clock"
)

// retention deletes messages older than a topic's own retention.ms, or beyond its retention.bytes. It replaces
// kfake's, which begins only when a topic is created or altered, uses the wall clock, and empties partitions.
//
// Invariant: a partition that had a message keeps its last one. kfake derives a partition's end from the messages on
// disk, so an emptied partition would restart at offset 0, below the groups' committed offsets (C3).
//
// kfake stores the first offset only when it is closed. After a SIGKILL deleted messages reappear as far as their
// segment is still on disk, until the next retention; offsets don't change.
//
// Retention first runs one period after the start: a program that was stopped for longer than its retention can first
// read the unread messages, and the clock of a machine that has just booted may not be set yet.
type retention struct {
	cluster *kfake.Cluster
	client  *Client
	clock   clock.Clock
	log     *slog.Logger

	end  context.CancelFunc
	done chan struct{} // closed when follow has returned; nil: it was never started
}

// neverMS turns off kfake's own retention: a hundred years in milliseconds, which fit 64 bits as nanoseconds; kfake
// has no setting for "never".
const neverMS = 100 * 365 * 24 * 3_600_000

// retentionFetchBytes bounds one read of batches to determine their sizes.
const retentionFetchBytes = 4 << 20

func newRetention(cluster *kfake.Cluster, addr, password string, opt EmbeddedOptions) *retention {
	config := DefaultConfig()
	config.Brokers, config.SASL = []string{addr}, EmbeddedSASL(password)
	return &retention{
		cluster: cluster, client: NewClient(config, opt.Log), clock: opt.Clock,
		log: opt.Log.With("component", "embedded-broker"),
	}
}

// start applies retention once per period until stop; never, if the period is negative.
func (r *retention) start(period time.Duration) {
	if period < 0 {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	r.end, r.done = end, make(chan struct{})
	go r.follow(ctx, r.clock.NewTicker(period))
}

func (r *retention) follow(ctx context.Context, ticker clock.Ticker) {
	defer close(r.done)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.apply(ctx)
		}
	}
}

// stop returns when no more requests are sent to the cluster: a closed cluster wouldn't answer.
func (r *retention) stop() {
	if r.done == nil {
		return
	}
	r.end()
	<-r.done
}

// apply deletes expired messages of the program's topics that aren't everlasting; the topic of decisions is skipped
// whatever its settings are. Errors are logged and retried at the next tick.
func (r *retention) apply(ctx context.Context) {
	defer r.client.Close() // an open client would keep requesting metadata
	for _, t := range r.client.Topics() {
		if t.Everlasting {
			continue
		}
		if err := r.applyTo(ctx, t.Name); err != nil && ctx.Err() == nil {
			r.log.Warn("applying retention failed, trying again at the next check", "topic", t.Name, "err", err)
		}
	}
}

// limits are the settings made on the topic itself; -1: none. Broker defaults delete nothing.
type limits struct {
	ms    int64
	bytes int64
}

func limitsOf(configs map[string]*string) (l limits, err error) {
	read := func(name string) int64 {
		value := configs[name]
		if value == nil {
			return -1
		}
		n, wrong := strconv.ParseInt(*value, 10, 64)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("read setting %s: %w", name, wrong))
			return -1
		}
		return n
	}
	return limits{ms: read("retention.ms"), bytes: read("retention.bytes")}, err
}

func (r *retention) applyTo(ctx context.Context, topic string) error {
	info := r.cluster.TopicInfo(topic)
	if info == nil {
		return nil // not created yet
	}
	limits, err := limitsOf(info.Configs)
	if err != nil {
		return err
	}
	partitions := r.cluster.PartitionInfos(topic)
	expired, err := r.expired(ctx, topic, limits.ms, partitions)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		beyond, err := r.beyond(ctx, topic, limits.bytes, p)
		if err != nil {
			return err
		}
		to := min(max(expired[p.Partition], beyond), p.HighWatermark-1)
		if to <= p.LogStartOffset {
			continue
		}
		if err := r.cluster.DeleteRecords(topic, p.Partition, to); err != nil {
			return fmt.Errorf("delete records of topic %q partition %d before offset %d: %w", topic, p.Partition, to, err)
		}
		r.log.Debug("retention applied", "topic", topic, "partition", p.Partition, "from", p.LogStartOffset, "to", to)
	}
	return nil
}

// expired returns, by partition, the offset before which every message is older than ms. If the clock stepped back,
// messages with a later time precede others, which are then deleted only with them.
func (r *retention) expired(ctx context.Context, topic string, ms int64,
	partitions []*kfake.PartitionInfo,
) (map[int32]int64, error) {
	out := map[int32]int64{}
	if ms < 0 || !anyDeletable(partitions) {
		return out, nil
	}
	since := r.clock.Now().Add(-time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
	if since.UnixMilli() <= 0 {
		return out, nil // nothing is older; negative times have other meanings in the protocol
	}
	offsets, err := r.client.OffsetsAt(ctx, topic, since)
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		first, ok := offsets[int(p.Partition)]
		// kfake may answer that no message is that late although one is: it searches only one segment, sometimes the
		// wrong one.
		if ok && (first < p.HighWatermark || p.MaxTimestamp < since.UnixMilli()) {
			out[p.Partition] = first
		}
	}
	return out, nil
}

// anyDeletable returns whether a partition has more than the one message that is kept.
func anyDeletable(partitions []*kfake.PartitionInfo) bool {
	for _, p := range partitions {
		if p.HighWatermark-p.LogStartOffset > 1 {
			return true
		}
	}
	return false
}

// beyond returns the offset before which whole batches can be deleted with at least bytes left, as Apache Kafka
// applies retention.bytes. It reads the batches, since the protocol gives their sizes nowhere else.
func (r *retention) beyond(ctx context.Context, topic string, bytes int64, p *kfake.PartitionInfo) (int64, error) {
	to := p.LogStartOffset
	excess := p.NumBytes - bytes
	if bytes < 0 || excess <= 0 {
		return to, nil
	}
	from := fetcher{
		client: r.client, topic: topic, partition: int(p.Partition),
		opt: ConsumerOptions{MaxBytes: retentionFetchBytes}.withDefaults(),
	}
	for to < p.HighWatermark {
		got, err := from.ask(ctx, to)
		if err != nil {
			return 0, fmt.Errorf("read batches of topic %q partition %d from offset %d: %w", topic, p.Partition, to, err)
		}
		b, rest, ok := cutBatch(got.set)
		if !ok {
			return to, nil
		}
		for ; ok; b, rest, ok = cutBatch(rest) {
			if excess -= int64(len(b.raw)); excess < 0 {
				return to, nil
			}
			to = b.behind(to, rest, p.HighWatermark)
		}
	}
	return to, nil
}
