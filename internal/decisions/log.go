package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
)

// ErrDeleted reports that the topic lacks decisions that it must have: messages were
// deleted, or the topic was recreated. Nothing is decided until it has been restored.
var ErrDeleted = errors.New("decisions were deleted")

// Options of a Log. Zero values take defaults.
type Options struct {
	Clock    clock.Clock           // nil: the real clock
	Log      *slog.Logger          // nil: nothing is logged
	Registry prometheus.Registerer // nil: metrics are not exposed
	// CopyDir is a directory to which the log is copied as it grows; empty: no copy.
	CopyDir string
	// CopyReadOnly: another process writes the copy; this one only compares with it.
	CopyReadOnly bool
	// Witness configures where the head is sent at each decision.
	Witness WitnessConfig
	// PriceBooksPerDay is the quota of price books; 0: the default.
	PriceBooksPerDay int
	// Progress is called while Open reads, with the messages read and their total
	// number.
	Progress func(done, total int64)
}

// Log is the topic and the state that it folds to. It is safe for concurrent use.
type Log struct {
	client   *broker.Client
	producer *broker.Producer
	opt      Options
	metrics  *metrics

	deciding *semaphore.Weighted // held to append or to send to the witnesses
	witness  *witness            // guarded by deciding

	reading *semaphore.Weighted // held to read
	copy    *copier             // guarded by reading; nil: nothing has been read yet
	mu      sync.RWMutex
	state   *State
	waiting map[string]*Outcome // by record ID: Append waits for it
	copied  standing
	// times are the append times of restored messages, by offset; last is the append
	// time of the message before the state's Next.
	times map[int64]time.Time
	last  time.Time
}

// Open checks the topic's settings, creates the topic if it is missing, and reads it
// to its end.
func Open(ctx context.Context, client *broker.Client, opt Options) (*Log, error) {
	l := Follow(client, opt)
	if err := l.refresh(ctx, l.opt.Progress); err != nil {
		return nil, fmt.Errorf("open decisions: %w", err)
	}
	return l, nil
}

// Follow returns a log of which nothing has been read: the first Refresh does what
// Open does.
func Follow(client *broker.Client, opt Options) *Log {
	if opt.Clock == nil {
		opt.Clock = clock.Real()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	m := newMetrics(opt.Registry)
	return &Log{
		client: client, producer: client.Producer(), opt: opt, metrics: m, state: NewState(), waiting: map[string]*Outcome{},
		times:    map[int64]time.Time{},
		deciding: semaphore.NewWeighted(1), reading: semaphore.NewWeighted(1),
		witness: &witness{config: opt.Witness, clock: opt.Clock, metrics: m, owed: true},
	}
}

// View calls do with the state as of the last read. The state doesn't change during
// the call; do must neither keep it nor call the Log.
func (l *Log) View(do func(*State)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	do(l.state)
}

// Refresh reads what was appended since the last read. Errors: the broker's, ctx's,
// and ErrDeleted.
func (l *Log) Refresh(ctx context.Context) error { return l.refresh(ctx, nil) }

func (l *Log) refresh(ctx context.Context, progress func(done, total int64)) error {
	if err := l.reading.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("read decisions: wait for another reader: %w", err)
	}
	defer l.reading.Release(1)
	if l.copy == nil {
		if err := l.client.EnsureTopics(ctx, broker.TopicDecisions); err != nil {
			return err
		}
		l.copy = openCopier(&l.opt)
	}
	last, err := l.end(ctx)
	if err != nil {
		return fmt.Errorf("read decisions: %w", err)
	}
	next := l.next()
	if next > last {
		return fmt.Errorf("read decisions: %w: the topic ends at offset %d, but %d messages were read before", ErrDeleted,
			last, next)
	}
	defer l.copyOn(ctx)
	return l.each(ctx, next, last, func(m *broker.Message) error {
		l.fold(m)
		_, chain := l.links(m.Offset)
		if err := l.copy.take(m, chain); err != nil {
			l.opt.Log.Error("decisions are not copied yet", "error", err)
		}
		if progress != nil {
			progress(m.Offset+1, last)
		}
		return nil
	})
}

// next is the offset at which reading continues.
func (l *Log) next() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.state.Next()
}

// end is the offset that will be written next. The first must be there still.
func (l *Log) end(ctx context.Context) (int64, error) {
	bounds, err := l.client.Bounds(ctx, broker.TopicDecisions)
	switch {
	case err != nil:
		return 0, err
	case len(bounds) != 1:
		return 0, fmt.Errorf("topic %s has %d partitions, but must have 1", broker.TopicDecisions, len(bounds))
	case bounds[0].First > 0:
		return 0, fmt.Errorf("%w: topic %s begins at offset %d instead of 0", ErrDeleted, broker.TopicDecisions,
			bounds[0].First)
	}
	return bounds[0].Last, nil
}

// readMessages is the greatest number of messages in one read of the topic.
const readMessages = 1000

// Limits of one fetch, compressed. A fetch also returns messages after the last one
// that was asked for, which are decompressed in vain: if few are wanted, its limit is
// the size of some parts of usage, which compress to an eighth at most.
const (
	fetchBytesPerMessage = PartBytes / 8
	maxFetchBytes        = 4 << 20
)

// unreadable begins the value that stands for an unreadable record batch.
const unreadable = "unreadable record batch with SHA-256 "

// each passes on every message at the offsets [from, to). Those of an unreadable batch
// are all the same: no key, and the batch's hash.
func (l *Log) each(ctx context.Context, from, to int64, do func(*broker.Message) error) error {
	r := l.client.Reader(broker.TopicDecisions, 0, from, to, broker.ConsumerOptions{
		MaxBytes: int(min((to-from)*fetchBytesPerMessage, maxFetchBytes)), EveryOffset: true,
	})
	defer r.Close()
	for {
		msgs, err := r.Read(ctx, readMessages)
		if errors.Is(err, io.EOF) && from == to {
			return nil
		}
		var beyond *broker.OffsetError
		if errors.Is(err, io.EOF) || errors.As(err, &beyond) {
			return fmt.Errorf("read decisions: %w: offset %d is missing", ErrDeleted, from)
		}
		if err != nil {
			return fmt.Errorf("read decisions from offset %d: %w", from, err)
		}
		for i := range msgs {
			if msgs[i].Offset != from {
				return fmt.Errorf("read decisions: %w: offsets [%d, %d) are missing", ErrDeleted, from, msgs[i].Offset)
			}
			m, end := msgs[i], msgs[i].Next()
			if m.Bad != nil && m.Bad.To > 0 {
				m.Key, m.Value = nil, []byte(unreadable+Digest(m.Value))
			}
			for ; from < min(end, to); from++ {
				m.Offset = from
				m.Time = l.appended(&m)
				if err := do(&m); err != nil {
					return err
				}
			}
		}
	}
}

// appendedHeader holds the append time that a restored message had in the lost log, in
// milliseconds since 1970.
const appendedHeader = "appended"

// appended is when a message was first appended. Runs and clusters are judged by it,
// so that a restored log gives the same answers as the lost one. A header is ignored
// if its time is before that of the previous message, or after the broker's own time.
func (l *Log) appended(m *broker.Message) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, restored := l.times[m.Offset]
	if restored {
		return was
	}
	if m.Offset != l.state.Next() {
		return m.Time
	}
	for _, h := range m.Headers {
		ms, err := strconv.ParseInt(string(h.Value), 10, 64)
		if at := time.UnixMilli(ms); h.Key == appendedHeader && err == nil && !at.Before(l.last) && at.Before(m.Time) {
			l.times[m.Offset], m.Time = at, at
		}
	}
	l.last = m.Time
	return m.Time
}

// fold applies a message, and passes its outcome to the Append that waits for it.
func (l *Log) fold(m *broker.Message) {
	l.mu.Lock()
	out, r := l.state.apply(m.Offset, m.Time, m.Key, m.Value)
	if wanted := l.waiting[r.ID]; wanted != nil && wanted.Offset < 0 {
		*wanted = out
	}
	l.mu.Unlock()
	l.metrics.count(&out, len(m.Value))
	if !out.Accepted && out.Repeats < 0 {
		l.opt.Log.Warn("decision refused", "offset", out.Offset, "kind", out.Kind, "who", r.Who, "reason", out.Reason)
	}
}
