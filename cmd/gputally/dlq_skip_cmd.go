package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/lifecycle"
)

func (s *session) dlqSkipCommand() *cobra.Command {
	o := dlqSkip{}
	cmd := &cobra.Command{
		Use:   "skip",
		Short: "Make ingest pass over messages at which it stands still",
		Long: "What ingest can't use becomes a dead letter by itself. This is for what stops it all the same: the group's offset\n" +
			"moves over the messages, they are dead in the journal with the reason skipped, and who did it and why is an audit\n" +
			"entry of the decisions. Ingest must be stopped, and stand at --offset: status names the place, and with\n" +
			"ingest.chunk_records: 1 it stands at the very message. Offsets that are in the journal are refused. The messages\n" +
			"stay in the topic until its retention takes them: gputally replay ingests them later, if they can be.",
		Example: examples(
			`gputally dlq skip --data DIR --offset 0/17 --reason "crashes ingest, ticket 4711"`, "one message",
			`gputally dlq skip --config FILE --offset 3/900 --count 12 --reason "disk of broker 2"`, "twelve of them, on a cluster",
		),
		Args: cobra.NoArgs,
	}
	data := dataFlag(cmd)
	flags := cmd.Flags()
	flags.Var(&o.place, "offset", "`PARTITION/OFFSET` of the samples topic at which ingest stands")
	flags.Int64Var(&o.count, "count", 1, "`NUMBER` of offsets to pass over")
	flags.StringVar(&o.reason, "reason", "", "`TEXT` that says why")
	flags.StringVar(&o.who, "by", "", "`NAME` of who decides it (default: the user that runs this)")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if !o.place.given || o.reason == "" || o.count < 1 {
			return usageError{errors.New("--offset PARTITION/OFFSET and --reason TEXT are needed, and --count 1 or more")}
		}
		if o.who = cmp.Or(o.who, currentUser()); o.who == "" {
			return usageError{errors.New("--by NAME is needed: the system has no name for who runs this")}
		}
		return s.skip(ctx, *data, &o)
	})
	return cmd
}

// dlqSkip is one call of dlq skip.
type dlqSkip struct {
	place       place
	count       int64
	reason, who string
}

func (s *session) skip(ctx context.Context, dataDir string, o *dlqSkip) (err error) {
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
	if err := p.follow().Refresh(ctx); err != nil {
		return err
	}
	return p.skip(ctx, o)
}

// skip is decided before anything moves: nobody passes over messages without a word
// of who did. What a killed one left undone, offsets behind the group's without a
// row, the same command does, under the same decision.
func (p *pipeline) skip(ctx context.Context, o *dlqSkip) error {
	from, to := o.place.offset, o.place.offset+o.count
	stands, err := p.skippable(ctx, o.place.partition, from, to)
	if err != nil {
		return err
	}
	if err := ingest.Unjournalled(ctx, p.access.db, o.place.partition, from, to); err != nil {
		return fmt.Errorf("skip %s: %w", &o.place, err)
	}
	audit := decisions.Audit{
		Action: "dlq skip", Subject: fmt.Sprintf("%s partition %d offsets [%d, %d)", broker.TopicSamples, o.place.partition, from, to), Detail: o.reason,
	}
	if err := p.moveTo(ctx, o.place.partition, stands); err != nil { // where it stands: only those who run refuse that
		return err
	}
	key := "dlq-skip/" + decisions.Digest([]byte(audit.Subject+"\x00"+audit.Detail+"\x00"+o.who))
	request, err := p.mayDecide(decisions.KindAudit, key, o.who, &audit)
	if err != nil {
		return err
	}
	out, err := p.decisions.Append(ctx, decisions.KindAudit, key, request, o.who, &audit)
	if err != nil {
		return err
	}
	if !out.Accepted {
		return fmt.Errorf("note who skips %s: refused: %s", &o.place, out.Reason)
	}
	if err := p.moveTo(ctx, o.place.partition, max(stands, to)); err != nil {
		return err
	}
	if err := ingest.Skip(ctx, p.access.db, o.place.partition, from, to, p.s.clock.Now()); err != nil {
		return err
	}
	return p.s.writef("Offsets [%d, %d) of partition %d are skipped; decision %d says by whom and why\n", from, to, o.place.partition, out.Offset)
}

func (p *pipeline) moveTo(ctx context.Context, partition int, offset int64) error {
	err := p.client.MoveGroup(ctx, p.cfg.Ingest.Group, broker.TopicSamples, partition, offset)
	if errors.Is(err, broker.ErrGroupInUse) {
		err = fmt.Errorf("%w: stop the services that ingest, and wait %s where one was killed", err, sessionTimeout)
	}
	return err
}

// skippable is where the group stands. It must not be before from, since what lies
// between was never read.
func (p *pipeline) skippable(ctx context.Context, partition int, from, to int64) (stands int64, err error) {
	offsets, err := p.client.Offsets(ctx, broker.TopicSamples, p.cfg.Ingest.Group)
	if err != nil {
		return 0, fmt.Errorf("read offsets: %w", err)
	}
	if partition >= len(offsets) {
		return 0, fmt.Errorf("skip: topic %s has %d partitions, want one of them, not %d", broker.TopicSamples, len(offsets), partition)
	}
	b := offsets[partition]
	stands = max(b.Committed, b.First)
	if from >= stands && stands == b.Last {
		return 0, fmt.Errorf("skip: nothing is unread: ingest stands at the end of partition %d, offset %d", partition, b.Last)
	}
	if from > stands || from < b.First || to > b.Last || to < from {
		return 0, fmt.Errorf("skip: ingest stands at offset %d of partition %d, which ends at %d: want --offset %d/%d and a --count that ends there, not the offsets [%d, %d)",
			stands, partition, b.Last, partition, stands, from, to)
	}
	return stands, nil
}
