package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

// SkipRequest is one call of dlq skip.
type SkipRequest struct {
	Place  cli.Place
	Count  int64
	Reason string
	who    string
}

// Skip moves the group of ingest past messages at which it is blocked, and records them as skipped in the journal.
// Who does it and why is recorded as a decision.
func Skip(ctx context.Context, s *cli.Session, o *SkipRequest) error {
	if !o.Place.Given || o.Reason == "" || o.Count < 1 {
		return cli.UsageError(errors.New("--offset PARTITION/OFFSET and --reason TEXT are required, --count is 1 or more"))
	}
	if o.who = cmp.Or(s.By, cli.CurrentUser()); o.who == "" {
		return cli.UsageError(errors.New("--by NAME is required: the system has no name for this user"))
	}
	return app.WithPipeline(ctx, s, app.Open, func(p *app.Pipeline) error {
		if err := p.Follow().Refresh(ctx); err != nil {
			return err
		}
		return skipOffsets(ctx, p, o)
	})
}

// skipOffsets records the decision before it changes anything. After a kill the same command completes the rest,
// offsets before the group's that have no row, under the same decision.
func skipOffsets(ctx context.Context, p *app.Pipeline, o *SkipRequest) error {
	from, to := o.Place.Offset, o.Place.Offset+o.Count
	position, err := skippable(ctx, p, o.Place.Partition, from, to)
	if err != nil {
		return err
	}
	if err := ingest.Unjournalled(ctx, p.Access.DB, o.Place.Partition, from, to); err != nil {
		return fmt.Errorf("skip %s: %w", &o.Place, err)
	}
	audit := decisions.Audit{
		Action:  "dlq skip",
		Subject: fmt.Sprintf("%s partition %d offsets [%d, %d)", broker.TopicSamples, o.Place.Partition, from, to),
		Detail:  o.Reason,
	}
	if err := moveTo(ctx, p, o.Place.Partition, position); err != nil { // checks that it has no members
		return err
	}
	key := "dlq-skip/" + decisions.Digest([]byte(audit.Subject+"\x00"+audit.Detail+"\x00"+o.who))
	request, err := p.MayDecide(decisions.KindAudit, key, o.who, &audit)
	if err != nil {
		return err
	}
	out, err := p.Decisions.Append(ctx, decisions.KindAudit, key, request, o.who, &audit)
	if err != nil {
		return err
	}
	if !out.Accepted {
		return fmt.Errorf("record who skips %s: refused: %s", &o.Place, out.Reason)
	}
	if err := moveTo(ctx, p, o.Place.Partition, max(position, to)); err != nil {
		return err
	}
	if err := ingest.Skip(ctx, p.Access.DB, o.Place.Partition, from, to, p.Session.Clock.Now()); err != nil {
		return err
	}
	return p.Session.Writef(
		"Offsets [%d, %d) of partition %d are skipped; decision %d records who did it and why\n", from, to,
		o.Place.Partition, out.Offset)
}

func moveTo(ctx context.Context, p *app.Pipeline, partition int, offset int64) error {
	err := p.Client.MoveGroup(ctx, p.Config.Ingest.Group, broker.TopicSamples, partition, offset)
	if errors.Is(err, broker.ErrGroupInUse) {
		err = fmt.Errorf("%w: stop the services that ingest, and wait %s where one was killed", err, app.SessionTimeout)
	}
	return err
}

// skippable is the group's offset. It must not be before from, since the messages in between were never read.
func skippable(ctx context.Context, p *app.Pipeline, partition int, from, to int64) (position int64, err error) {
	offsets, err := p.Client.Offsets(ctx, broker.TopicSamples, p.Config.Ingest.Group)
	if err != nil {
		return 0, fmt.Errorf("read offsets: %w", err)
	}
	if partition >= len(offsets) {
		return 0, fmt.Errorf("skip: topic %s has %d partitions, want one of them, not %d", broker.TopicSamples,
			len(offsets), partition)
	}
	b := offsets[partition]
	position = max(b.Committed, b.First)
	if from >= position && position == b.Last {
		return 0, fmt.Errorf("skip: nothing is unread: ingest is at the end of partition %d, offset %d",
			partition, b.Last)
	}
	if from > position || from < b.First || to > b.Last || to < from {
		return 0, fmt.Errorf(
			"skip: ingest is at offset %d of partition %d, which ends at %d: want --offset %d/%d and a --count that ends "+
				"there, not the offsets [%d, %d)",
			position, partition, b.Last, partition, position, from, to)
	}
	return position, nil
}
