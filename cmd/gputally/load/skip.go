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

// Skip moves the group of ingest over messages at which it stands still, and journals
// them as skipped. Who does it and why is a decision.
func Skip(ctx context.Context, s *cli.Session, o *SkipRequest) error {
	if !o.Place.Given || o.Reason == "" || o.Count < 1 {
		return cli.UsageError(errors.New("--offset PARTITION/OFFSET and --reason TEXT are needed, and --count 1 or more"))
	}
	if o.who = cmp.Or(s.By, cli.CurrentUser()); o.who == "" {
		return cli.UsageError(errors.New("--by NAME is needed: the system has no name for who runs this"))
	}
	return app.WithPipeline(ctx, s, app.Open, func(p *app.Pipeline) error {
		if err := p.Follow().Refresh(ctx); err != nil {
			return err
		}
		return skipOffsets(ctx, p, o)
	})
}

// skipOffsets is decided before anything moves: nobody passes over messages without a word
// of who did. What a killed one left undone, offsets behind the group's without a
// row, the same command does, under the same decision.
func skipOffsets(ctx context.Context, p *app.Pipeline, o *SkipRequest) error {
	from, to := o.Place.Offset, o.Place.Offset+o.Count
	stands, err := skippable(ctx, p, o.Place.Partition, from, to)
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
	if err := moveTo(ctx, p, o.Place.Partition, stands); err != nil { // where it stands: only those who run refuse that
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
		return fmt.Errorf("note who skips %s: refused: %s", &o.Place, out.Reason)
	}
	if err := moveTo(ctx, p, o.Place.Partition, max(stands, to)); err != nil {
		return err
	}
	if err := ingest.Skip(ctx, p.Access.DB, o.Place.Partition, from, to, p.Session.Clock.Now()); err != nil {
		return err
	}
	return p.Session.Writef("Offsets [%d, %d) of partition %d are skipped; decision %d says by whom and why\n", from, to,
		o.Place.Partition, out.Offset)
}

func moveTo(ctx context.Context, p *app.Pipeline, partition int, offset int64) error {
	err := p.Client.MoveGroup(ctx, p.Config.Ingest.Group, broker.TopicSamples, partition, offset)
	if errors.Is(err, broker.ErrGroupInUse) {
		err = fmt.Errorf("%w: stop the services that ingest, and wait %s where one was killed", err, app.SessionTimeout)
	}
	return err
}

// skippable is where the group stands. It must not be before from, since what lies
// between was never read.
func skippable(ctx context.Context, p *app.Pipeline, partition int, from, to int64) (stands int64, err error) {
	offsets, err := p.Client.Offsets(ctx, broker.TopicSamples, p.Config.Ingest.Group)
	if err != nil {
		return 0, fmt.Errorf("read offsets: %w", err)
	}
	if partition >= len(offsets) {
		return 0, fmt.Errorf("skip: topic %s has %d partitions, want one of them, not %d", broker.TopicSamples,
			len(offsets), partition)
	}
	b := offsets[partition]
	stands = max(b.Committed, b.First)
	if from >= stands && stands == b.Last {
		return 0, fmt.Errorf("skip: nothing is unread: ingest stands at the end of partition %d, offset %d",
			partition, b.Last)
	}
	if from > stands || from < b.First || to > b.Last || to < from {
		return 0, fmt.Errorf(
			"skip: ingest stands at offset %d of partition %d, which ends at %d: want --offset %d/%d and a --count that ends "+
				"there, not the offsets [%d, %d)",
			stands, partition, b.Last, partition, stands, from, to)
	}
	return stands, nil
}
