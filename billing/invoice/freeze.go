package invoice

import (
	"context"
	"fmt"
	"time"

	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// frozen is what was decided of the hours in [from, to).
func (r *Register) frozen(ctx context.Context, state decidedState, from, to time.Time) (*rating.Frozen, error) {
	frozen := rating.NewFrozen()
	for _, f := range state.freezes(from, to) {
		text, err := r.deps.Decisions.Read(ctx, f.Copy)
		if err != nil {
			return nil, fmt.Errorf("read frozen hours of %s: %w", f.From.Format(time.RFC3339), err)
		}
		if err := frozen.AddFreeze(f.From, f.To, text); err != nil {
			return nil, err
		}
	}
	return frozen, nil
}

// freezeGap decides a stretch of hours as a plan has them. Not ours: somebody
// else was quicker, and decided other hours or something else of them.
func (r *Register) freezeGap(ctx context.Context, p *plan, gap decisions.Span, who string) (ours bool, err error) {
	from, to := gap.From.UTC(), gap.To.UTC()
	document, err := r.deps.Decisions.Put(ctx, p.freeze.Text(from, to))
	if err != nil {
		return false, fmt.Errorf("freeze hours from %s to %s: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), err)
	}
	key := "freeze/" + from.Format(time.RFC3339) + "/" + to.Format(time.RFC3339)
	body := &decisions.Freeze{From: from, To: to, PriceBook: p.book.Hash, Copy: document}
	outcome, err := r.deps.Decisions.Append(ctx, decisions.KindFreeze, key, request("freeze", document.SHA256), who, body)
	return outcome.Accepted, err
}
