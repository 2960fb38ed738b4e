package invoice

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/decisions"
)

// ErrNothingToAdjust is a correction of an invoice whose usage is what it was.
var ErrNothingToAdjust = errors.New("nothing to adjust")

// Approve says of a tenant's month that somebody looked at it: at the invoice
// that would be finalised now, or at the note that would be decided. The
// approval holds for exactly these bytes.
func (r *Register) Approve(ctx context.Context, period, tenant, who, comment string) (Decided, error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.view(ctx)
	if err != nil {
		return Decided{}, err
	}
	document, err := r.toDecide(ctx, state, period, tenant)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s of tenant %q: %w", period, tenant, err)
	}
	content, err := Canonical(document)
	if err != nil {
		return Decided{}, err
	}
	hash := decisions.Digest(content)
	body := &decisions.Approval{Subject: document.Number, Content: hash, Comment: comment}
	key := "approval/" + request(document.Number, hash, who)
	outcome, err := r.deps.Decisions.Append(ctx, decisions.KindApproval, key, request("approval", document.Number, hash), who, body)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s: %w", document.Number, err)
	}
	if !outcome.Accepted && outcome.Repeats < 0 {
		return Decided{}, &ConflictError{fmt.Sprintf("the approval of %s was refused: %s", document.Number, outcome.Reason)}
	}
	return Decided{Number: document.Number, Tenant: tenant, Kind: document.Kind, Total: document.Total, Content: hash, Already: !outcome.Accepted}, nil
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

// findApproval is the key of somebody else's approval of these very bytes.
func findApproval(state decidedState, record decisions.Invoice, who string) (key string, err error) {
	for _, approval := range state.approvals(record.Number) {
		if approval.Body.Content == record.Content.SHA256 && approval.Who != who {
			return approval.Key, nil
		}
	}
	return "", &ConflictError{fmt.Sprintf("%s with the content %s needs the approval of somebody other than %s", record.Number, record.Content.SHA256, who)}
}
