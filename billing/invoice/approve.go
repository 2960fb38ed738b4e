package invoice

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/internal/decisions"
)

// ApproveRequest is an approval of a document.
type ApproveRequest struct {
	Period, Tenant string
	Who, Comment   string
	// Expect is the SHA-256, in hex, of the reviewed document, or 16 digits of it or more: nothing else is approved.
	Expect string
	// Key is the idempotency key; empty: one derived from document and person.
	Key string
}

// Approve records that a person has reviewed a tenant's month: the invoice that would be finalised now, or the note
// that would be decided. The approval is valid only for the bytes of the expected hash. Errors: *MovedError if the
// document is another one, *ConflictError, and as in Drafts.Show; after any of them nothing was appended.
func (r *Register) Approve(ctx context.Context, q ApproveRequest) (Decided, error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return Decided{}, err
	}
	if done, used, err := r.approvedWith(q); used {
		return done, err
	}
	if err := r.mayApprove(q.Who); err != nil {
		return Decided{}, err
	}
	document, err := r.toDecide(ctx, q.Period, q.Tenant)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s of tenant %q: %w", q.Period, q.Tenant, err)
	}
	if err := setContent(document); err != nil {
		return Decided{}, err
	}
	done := Decided{
		Number: document.Number, Tenant: q.Tenant, Kind: document.Kind, Total: document.Total.String(),
		Currency: document.Currency, Content: document.Content,
	}
	if q.Expect == "" {
		return Decided{}, conflict(ReasonExpected,
			"approve %s: the SHA-256 of the reviewed document is missing; the draft shows it", done.Number)
	}
	if err := expected(done, q.Expect); err != nil {
		return Decided{}, err
	}
	return r.approve(ctx, q, done)
}

func (r *Register) approve(ctx context.Context, q ApproveRequest, done Decided) (Decided, error) {
	body := &decisions.Approval{
		Subject: done.Number, Content: done.Content, Comment: q.Comment, Total: done.Total,
		Currency: done.Currency,
	}
	key, what := q.Key, request("approval", done.Number, done.Content)
	if key == "" {
		key = "approval/" + request(done.Number, done.Content, q.Who)
	}
	outcome, err := r.append(ctx, decisions.KindApproval, key, what, q.Who, body)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s: %w", done.Number, err)
	}
	done.Already = outcome.Repeats >= 0
	return done, nil
}

// approvedWith answers a request whose idempotency key approved something.
func (r *Register) approvedWith(q ApproveRequest) (done Decided, used bool, err error) {
	if _, used = r.used(q.Key); !used {
		return done, false, nil
	}
	approval, ok := lookup(r, (*decisions.State).Approval, q.Key)
	for revision := range len(r.chain(q.Tenant, q.Period)) + 1 {
		if ok && approval.Who == q.Who && approval.Body.Subject == decisions.Number(q.Period, q.Tenant, revision) {
			done = Decided{
				Number: approval.Body.Subject, Tenant: q.Tenant, Content: approval.Body.Content,
				Total: approval.Body.Total, Currency: approval.Body.Currency, Already: true,
			}
			return done, true, expected(done, q.Expect)
		}
	}
	return done, true, keyUsed()
}

// toDecide returns the document that finalising or correcting would decide.
func (r *Register) toDecide(ctx context.Context, period, tenant string) (*Invoice, error) {
	if chain := r.chain(tenant, period); len(chain) > 0 {
		found, err := r.adjustments(ctx, period, [][]decisions.Invoice{chain})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s is finalised: %w", chain[0].Number, ErrNothingToAdjust)
		}
		return &found[0].Note, nil
	}
	drafts, err := r.drafts(ctx, period)
	if err != nil {
		return nil, err
	}
	draft, err := drafts.Show(ctx, period, tenant)
	if err != nil {
		return nil, err
	}
	if draft.Quarantined != "" {
		return nil, conflict(draft.Withheld, "%s", draft.Quarantined)
	}
	draft.Status = StatusFinalised
	return draft, nil
}

// ApprovePolicy records a person's approval of the next policy. Changing a policy that requires approvals takes two
// people.
func (r *Register) ApprovePolicy(ctx context.Context, p decisions.Policy, who, comment string) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return err
	}
	if err := r.mayApprove(who); err != nil {
		return err
	}
	content := p.Content()
	body := &decisions.Approval{Subject: p.Subject(), Content: content, Comment: comment}
	_, err := r.append(ctx, decisions.KindApproval, "approval/"+request(body.Subject, content, who),
		request("approval", body.Subject, content), who, body)
	return err
}

// SetPolicy puts a policy in force; its Revision identifies its predecessor.
func (r *Register) SetPolicy(ctx context.Context, p decisions.Policy, who string) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if err := r.decidable(ctx); err != nil {
		return err
	}
	if r.needsApproval() {
		var err error
		if p.Approval, err = r.approvedBy(who, p.Content(), p.Subject()); err != nil {
			return err
		}
	}
	what := request("policy", p.Subject(), p.Content())
	_, err := r.append(ctx, decisions.KindPolicy, "policy/"+what, what, who, &p)
	return err
}

// mayApprove fails with a *ConflictError unless the policy in force lets who approve: decisions.State.MayApprove.
func (r *Register) mayApprove(who string) error {
	if err := ask(r, func(s *decisions.State) error { return s.MayApprove(who) }); err != nil {
		return conflict(ReasonApproval, "%v", err)
	}
	return nil
}
