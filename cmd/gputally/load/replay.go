package load

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/plural"
)

// ReplayRequest is one call of the command.
type ReplayRequest struct {
	Place    cli.Place
	From, To cli.Instant
}

// span is the offsets [from, to) of a partition.
type span struct {
	partition int
	from, to  int64
}

// spans returns the offsets to read: retained, requested, and committed.
func (o *ReplayRequest) spans(ctx context.Context, p *app.Pipeline) ([]span, error) {
	offsets, err := p.Client.Offsets(ctx, broker.TopicSamples, p.Config.Ingest.Group)
	if err != nil {
		return nil, fmt.Errorf("read offsets: %w", err)
	}
	at := func(i cli.Instant) (map[int]int64, error) {
		if i.At.IsZero() {
			return nil, nil
		}
		return p.Client.OffsetsAt(ctx, broker.TopicSamples, i.At)
	}
	begin, err := at(o.From)
	if err != nil {
		return nil, err
	}
	end, err := at(o.To)
	if err != nil {
		return nil, err
	}
	var spans []span
	for _, b := range offsets {
		s := span{b.Partition, b.First, b.Committed}
		if to, ok := end[b.Partition]; ok {
			s.to = min(s.to, to)
		}
		if o.Place.Given && b.Partition != o.Place.Partition {
			continue
		}
		if o.Place.Given {
			if s.from = o.Place.Offset; s.from < b.First || s.from > b.Last {
				return nil, fmt.Errorf("--from-offset %s: partition %d has the offsets %d to %d", &o.Place, b.Partition,
					b.First, b.Last)
			}
		} else {
			s.from = max(s.from, begin[b.Partition])
		}
		if s.from < s.to {
			spans = append(spans, s)
		}
	}
	if o.Place.Given && o.Place.Partition >= len(offsets) {
		return nil, fmt.Errorf("--from-offset %s: topic %s has %d partitions", &o.Place, broker.TopicSamples, len(offsets))
	}
	return spans, nil
}

// Replay ingests requested messages again that are still in the topic, and prints the result.
func Replay(ctx context.Context, s *cli.Session, o *ReplayRequest) error {
	if !o.To.At.IsZero() && !o.From.At.IsZero() && !o.From.At.Before(o.To.At) {
		return cli.UsageError(fmt.Errorf("--from-time %s is not before --to-time %s", &o.From, &o.To))
	}
	return app.WithPipeline(ctx, s, app.Open, func(p *app.Pipeline) error {
		spans, err := o.spans(ctx, p)
		if err != nil {
			return err
		}
		sum, err := replaySpans(ctx, p, spans)
		if err != nil {
			return err
		}
		if err := p.Patiently(ctx, "ledger pass", func() error { _, err := p.Ledger.Pass(ctx); return err }); err != nil {
			return err
		}
		return s.Writef("%s replayed: %d stored, %d dead, %d unchanged; %d new or changed in the journal, "+
			"raw rows of %s replaced\n",
			plural.Of(sum.Messages, "message"), sum.Stored, sum.Dead, sum.Kept, sum.Changed, plural.Of(sum.Cleared, "batch"))
	})
}

// replaySpans replays the spans, with a bar.
func replaySpans(ctx context.Context, p *app.Pipeline, spans []span) (sum ingest.Replayed, err error) {
	var done, total int64
	for _, s := range spans {
		total += s.to - s.from
	}
	bar := cli.NewProgress(p.Session.Stderr, p.Session.Clock, "replay")
	defer bar.Clear()
	in, err := ingest.New(p.Config.Ingest, ingest.Deps{
		DeadLetters: p.Client.Producer(), Store: p.Access.DB, Origins: p.Follow(), Clusters: p.OwnCluster(),
		Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry,
	})
	if err != nil {
		return sum, err
	}
	for _, s := range spans {
		reader := p.Client.Reader(broker.TopicSamples, s.partition, s.from, s.to,
			broker.ConsumerOptions{MaxBytes: app.FetchBytes})
		n, err := in.Replay(ctx, reader, p.Access.DB, func(offset int64) { bar.Set(done+offset+1-s.from, total) })
		reader.Close()
		sum.Add(n)
		if err != nil {
			return sum, fmt.Errorf("replay partition %d from offset %d: %w", s.partition, s.from, err)
		}
		done += s.to - s.from
	}
	return sum, nil
}
