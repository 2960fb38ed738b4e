package invoice

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/decisions"
)

// ErrNothingToAdjust is a correction of an invoice whose usage is what it was.
var ErrNothingToAdjust = errors.New("nothing to adjust")

// ApproveRequest says who looked at what.
type ApproveRequest struct {
	Period, Tenant string
	Who, Comment   string
	// Key is the idempotency key; empty: one that follows from document and person.
	Key string
}

// Approve says of a tenant's month that somebody looked at it: at the invoice
// that would be finalised now, or at the note that would be decided. The
// approval holds for exactly these bytes.
func (r *Register) Approve(ctx context.Context, q ApproveRequest) (Decided, error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.decidable(ctx)
	if err != nil {
		return Decided{}, err
	}
	if done, used, err := approvedWith(state, q); used {
		return done, err
	}
	if err := state.mayApprove(q.Who); err != nil {
		return Decided{}, err
	}
	document, err := r.toDecide(ctx, state, q.Period, q.Tenant)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s of tenant %q: %w", q.Period, q.Tenant, err)
	}
	content, err := Canonical(document)
	if err != nil {
		return Decided{}, err
	}
	hash := decisions.Digest(content)
	body := &decisions.Approval{Subject: document.Number, Content: hash, Comment: q.Comment}
	key := q.Key
	if key == "" {
		key = "approval/" + request(document.Number, hash, q.Who)
	}
	outcome, err := r.deps.Decisions.Append(ctx, decisions.KindApproval, key, request("approval", document.Number, hash), q.Who, body)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s: %w", document.Number, err)
	}
	if !outcome.Accepted && outcome.Repeats < 0 {
		return Decided{}, &ConflictError{fmt.Sprintf("the approval of %s was refused: %s", document.Number, outcome.Reason)}
	}
	return Decided{Number: document.Number, Tenant: q.Tenant, Kind: document.Kind, Total: document.Total, Currency: document.Currency, Content: hash, Already: !outcome.Accepted}, nil
}

// approvedWith answers a request whose idempotency key approved something; of
// the document it knows number and content alone.
func approvedWith(state decidedState, q ApproveRequest) (done Decided, used bool, err error) {
	if _, used = state.used(q.Key); !used {
		return done, false, nil
	}
	approval, ok := state.approval(q.Key)
	for revision := range len(state.chain(q.Tenant, q.Period)) + 1 {
		if ok && approval.Who == q.Who && approval.Body.Subject == Number(q.Period, q.Tenant, revision) {
			return Decided{Number: approval.Body.Subject, Tenant: q.Tenant, Content: approval.Body.Content, Already: true}, true, nil
		}
	}
	return done, true, &ConflictError{fmt.Sprintf("the key %q was used for another request", q.Key)}
}

// toDecide is the document that finalising or correcting would make stand.
func (r *Register) toDecide(ctx context.Context, state decidedState, period, tenant string) (*Invoice, error) {
	if chain := state.chain(tenant, period); len(chain) > 0 {
		found, err := r.adjustments(ctx, state, period, [][]decisions.Invoice{chain})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s is finalised: %w", chain[0].Number, ErrNothingToAdjust)
		}
		return &found[0].Note, nil
	}
	drafts, err := r.drafts(ctx, state, period)
	if err != nil {
		return nil, err
	}
	draft, err := drafts.Show(ctx, period, tenant)
	if err != nil {
		return nil, err
	}
	draft.Status = StatusFinalised
	return draft, nil
}

// findApproval is the key of an approval of these very bytes that counts.
func findApproval(state decidedState, record decisions.Invoice, who string) (key string, err error) {
	state.log.View(func(s *decisions.State) { key, err = s.FindApproval(who, record.Content.SHA256, record.Number) })
	if err != nil {
		return "", &ConflictError{err.Error()}
	}
	return key, nil
}
