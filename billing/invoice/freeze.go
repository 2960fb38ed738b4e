package invoice

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/billing/prices"
	"github.com/gpuledger/gpuledger/billing/rating"
	"github.com/gpuledger/gpuledger/internal/decisions"
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

// freezeAttempts is how often somebody else may freeze the same hours meanwhile.
const freezeAttempts = 5

// freeze decides the hours of [from, to) that are not decided yet.
func (r *Register) freeze(ctx context.Context, state decidedState, b *prices.Book, from, to time.Time, who string) (decidedState, error) {
	for range freezeAttempts {
		gaps := state.unfrozen(from, to)
		if len(gaps) == 0 {
			return state, nil
		}
		for _, gap := range gaps {
			if err := r.freezeGap(ctx, b, gap.From, gap.To, who); err != nil {
				return state, fmt.Errorf("freeze hours from %s to %s: %w", gap.From.Format(time.RFC3339), gap.To.Format(time.RFC3339), err)
			}
		}
		var err error
		if state, err = r.view(ctx); err != nil {
			return state, err
		}
	}
	return state, &ConflictError{fmt.Sprintf("the hours from %s to %s were frozen by others again and again", from.Format(time.RFC3339), to.Format(time.RFC3339))}
}

// freezeGap decides a stretch of hours. That somebody else was quicker is no error.
func (r *Register) freezeGap(ctx context.Context, b *prices.Book, from, to time.Time, who string) error {
	text := rating.NewFreeze(b)
	err := readHours(ctx, r.deps.DB, from, to, func(h hourOfUsage) error { return text.AddHour(h.hour, h.rows) })
	if err != nil {
		return err
	}
	document, err := r.deps.Decisions.Put(ctx, text.Text())
	if err != nil {
		return err
	}
	key := "freeze/" + from.UTC().Format(time.RFC3339) + "/" + to.UTC().Format(time.RFC3339)
	body := &decisions.Freeze{From: from.UTC(), To: to.UTC(), PriceBook: b.Hash, Copy: document}
	_, err = r.deps.Decisions.Append(ctx, decisions.KindFreeze, key, request("freeze", document.SHA256), who, body)
	return err
}
