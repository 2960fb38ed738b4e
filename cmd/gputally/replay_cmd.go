package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/lifecycle"
)

func (s *session) replayCommand() *cobra.Command {
	o := replay{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Ingest again what is still in the topic",
		Long: "Reads the samples topic again and takes every message through decode, settle, insert and journal once\n" +
			"more: raw rows that ClickHouse lost come back, rows that batches don't have go, and a newer version's rules\n" +
			"replace the older ones'. Only what ingest has committed is replayed; the group's offsets stay, so that it is\n" +
			"safe beside a running ingester. Doing it twice, or stopping and repeating it, changes nothing more. At the\n" +
			"end the ledger recomputes the hours that are dirty. Times are the broker's, of the append.",
		Example: examples(
			"gputally replay --data DIR --from-time 2026-10-01", "all that came in since then",
			"gputally replay --data DIR --from-offset 2/1500", "one partition, from an offset on",
		),
		Args: cobra.NoArgs,
	}
	data := dataFlag(cmd)
	flags := cmd.Flags()
	flags.Var(&o.place, "from-offset", "the `PARTITION/OFFSET` to begin at; other partitions are left alone")
	flags.Var(&o.from, "from-time", "the `TIME` of the append to begin at, in every partition")
	flags.Var(&o.to, "to-time", "the `TIME` of the append to end before (default: what ingest has committed)")
	cmd.MarkFlagsOneRequired("from-offset", "from-time")
	cmd.MarkFlagsMutuallyExclusive("from-offset", "from-time")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if !o.to.at.IsZero() && !o.from.at.IsZero() && !o.from.at.Before(o.to.at) {
			return usageError{fmt.Errorf("--from-time %s is not before --to-time %s", &o.from, &o.to)}
		}
		s.resumes = true
		return s.replay(ctx, *data, &o)
	})
	return cmd
}

// replay is one call of the command.
type replay struct {
	place    place
	from, to instant
}

// span is the offsets [from, to) of a partition.
type span struct {
	partition int
	from, to  int64
}

// spans are what is to be read: retained, asked for, and committed.
func (o *replay) spans(ctx context.Context, p *pipeline) ([]span, error) {
	offsets, err := p.client.Offsets(ctx, broker.TopicSamples, p.cfg.Ingest.Group)
	if err != nil {
		return nil, fmt.Errorf("read offsets: %w", err)
	}
	at := func(i instant) (map[int]int64, error) {
		if i.at.IsZero() {
			return nil, nil
		}
		return p.client.OffsetsAt(ctx, broker.TopicSamples, i.at)
	}
	begin, err := at(o.from)
	if err != nil {
		return nil, err
	}
	end, err := at(o.to)
	if err != nil {
		return nil, err
	}
	var spans []span
	for _, b := range offsets {
		s := span{b.Partition, b.First, b.Committed}
		if to, ok := end[b.Partition]; ok {
			s.to = min(s.to, to)
		}
		if o.place.given && b.Partition != o.place.partition {
			continue
		}
		if o.place.given {
			if s.from = o.place.offset; s.from < b.First || s.from > b.Last {
				return nil, fmt.Errorf("--from-offset %s: partition %d has the offsets %d to %d", &o.place, b.Partition, b.First, b.Last)
			}
		} else {
			s.from = max(s.from, begin[b.Partition])
		}
		if s.from < s.to {
			spans = append(spans, s)
		}
	}
	if o.place.given && o.place.partition >= len(offsets) {
		return nil, fmt.Errorf("--from-offset %s: topic %s has %d partitions", &o.place, broker.TopicSamples, len(offsets))
	}
	return spans, nil
}

func (s *session) replay(ctx context.Context, dataDir string, o *replay) (err error) {
	a, err := s.open(ctx, dataDir, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.needBroker(); err != nil {
		return err
	}
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	a.cfg.Ledger.KeepMapping = true
	p, err := s.newPipeline(ctx, a, group)
	if err != nil {
		return err
	}
	spans, err := o.spans(ctx, p)
	if err != nil {
		return err
	}
	sum, err := p.replay(ctx, spans)
	if err != nil {
		return err
	}
	if err := p.patiently(ctx, "ledger pass", func() error { _, err := p.ledger.Pass(ctx); return err }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stdout, "%d messages replayed: %d stored, %d dead, %d left as they were; %d journalled anew or otherwise, raw of %d batches cleared\n",
		sum.Messages, sum.Stored, sum.Dead, sum.Kept, sum.Changed, sum.Cleared)
	return err
}

// replay replays the spans, with a bar.
func (p *pipeline) replay(ctx context.Context, spans []span) (sum ingest.Replayed, err error) {
	var done, total int64
	for _, s := range spans {
		total += s.to - s.from
	}
	bar := newProgress(p.s.stderr, p.s.clock, "replay")
	defer bar.Clear()
	in, err := ingest.New(p.cfg.Ingest, ingest.Deps{
		DeadLetters: p.client.Producer(), Store: p.access.db, Origins: p.follow(), Clusters: p.ownCluster(), Clock: p.s.clock, Log: p.s.log, Registry: p.reg,
	})
	if err != nil {
		return sum, err
	}
	for _, s := range spans {
		reader := p.client.Reader(broker.TopicSamples, s.partition, s.from, s.to, broker.ConsumerOptions{MaxBytes: fetchBytes})
		n, err := in.Replay(ctx, reader, p.access.db, func(offset int64) { bar.Set(done+offset+1-s.from, total) })
		reader.Close()
		sum.Add(n)
		if err != nil {
			return sum, fmt.Errorf("replay partition %d from offset %d: %w", s.partition, s.from, err)
		}
		done += s.to - s.from
	}
	return sum, nil
}
