package invoice

import (
	"context"
	"fmt"

	"github.com/gputally/gputally/internal/decisions"
)

// ApproveRequest says who looked at what.
type ApproveRequest struct {
	Period, Tenant string
	Who, Comment   string
	// Expect is the SHA-256, in hex, of what was looked at, or 16 digits of it or
	// more: nothing else is approved.
	Expect string
	// Key is the idempotency key; empty: one that follows from document and person.
	Key string
}

// Approve says of a tenant's month that somebody looked at it: at the invoice
// that would be finalised now, or at the note that would be decided. The
// approval holds for exactly the bytes of the expected hash. Errors: *MovedError
// where the document is another one, *ConflictError, and as in Drafts.Show; after
// any of them nothing was appended.
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
	if err := setContent(document); err != nil {
		return Decided{}, err
	}
	done := Decided{
		Number: document.Number, Tenant: q.Tenant, Kind: document.Kind, Total: document.Total.String(),
		Currency: document.Currency, Content: document.Content,
	}
	if q.Expect == "" {
		return Decided{}, conflict(ReasonExpected,
			"approve %s: whose content was looked at? Name its SHA-256, which the draft has", done.Number)
	}
	if err := expected(done, q.Expect); err != nil {
		return Decided{}, err
	}
	return r.approve(ctx, state, q, done)
}

func (r *Register) approve(ctx context.Context, state decidedState, q ApproveRequest, done Decided) (Decided, error) {
	body := &decisions.Approval{
		Subject: done.Number, Content: done.Content, Comment: q.Comment, Total: done.Total,
		Currency: done.Currency,
	}
	key, what := q.Key, request("approval", done.Number, done.Content)
	if key == "" {
		key = "approval/" + request(done.Number, done.Content, q.Who)
	}
	if err := r.check(state, decisions.KindApproval, key, what, q.Who, body); err != nil {
		return Decided{}, fmt.Errorf("approve %s: %w", done.Number, err)
	}
	outcome, err := r.deps.Decisions.Append(ctx, decisions.KindApproval, key, what, q.Who, body)
	if err != nil {
		return Decided{}, fmt.Errorf("approve %s: %w", done.Number, err)
	}
	if !outcome.Accepted && outcome.Repeats < 0 {
		return Decided{}, conflict(ReasonRace, "the approval of %s was refused: %s", done.Number, outcome.Reason)
	}
	done.Already = outcome.Repeats >= 0
	return done, nil
}

// approvedWith answers a request whose idempotency key approved something.
func approvedWith(state decidedState, q ApproveRequest) (done Decided, used bool, err error) {
	if _, used = state.used(q.Key); !used {
		return done, false, nil
	}
	approval, ok := state.approval(q.Key)
	for revision := range len(state.chain(q.Tenant, q.Period)) + 1 {
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
	if draft.Quarantined != "" {
		return nil, conflict(draft.Withheld, "%s", draft.Quarantined)
	}
	draft.Status = StatusFinalised
	return draft, nil
}

// findApproval is the key of an approval of these very bytes that counts.
func findApproval(state decidedState, record decisions.Invoice, who string) (key string, err error) {
	state.log.View(func(s *decisions.State) { key, err = s.FindApproval(who, record.Content.SHA256, record.Number) })
	if err != nil {
		return "", conflict(ReasonApproval, "%v", err)
	}
	return key, nil
}

// policy is the one in force; without any, the zero one.
func (s decidedState) policy() decisions.Policy {
	return ask(s, func(state *decisions.State) decisions.Policy { p, _ := state.Policy(); return p.Body })
}

// mayApprove fails with a *ConflictError for whom the policy in force lets
// approve nothing.
func (s decidedState) mayApprove(who string) (err error) {
	s.log.View(func(state *decisions.State) { err = state.MayApprove(who) })
	if err != nil {
		return conflict(ReasonApproval, "%v", err)
	}
	return nil
}

// ApprovePolicy says that somebody wants a policy to be the next one. It takes
// two to change one that wants approvals.
func (r *Register) ApprovePolicy(ctx context.Context, p decisions.Policy, who, comment string) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.decidable(ctx)
	if err != nil {
		return err
	}
	if err := state.mayApprove(who); err != nil {
		return err
	}
	content := p.Content()
	body := &decisions.Approval{Subject: p.Subject(), Content: content, Comment: comment}
	return r.append(ctx, state, decisions.KindApproval, "approval/"+request(body.Subject, content, who),
		request("approval", body.Subject, content), who, body)
}

// SetPolicy puts a policy in force; its Revision says which one it follows.
func (r *Register) SetPolicy(ctx context.Context, p decisions.Policy, who string) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	state, err := r.decidable(ctx)
	if err != nil {
		return err
	}
	if state.policy().Approvals {
		state.log.View(func(s *decisions.State) { p.Approval, err = s.FindApproval(who, p.Content(), p.Subject()) })
		if err != nil {
			return conflict(ReasonApproval, "%v", err)
		}
	}
	what := request("policy", p.Subject(), p.Content())
	return r.append(ctx, state, decisions.KindPolicy, "policy/"+what, what, who, &p)
}

// append decides a thing; a *ConflictError where the fold refuses it, or would.
func (r *Register) append(
	ctx context.Context, state decidedState, kind decisions.Kind, key, what, who string, body any,
) error {
	if err := r.check(state, kind, key, what, who, body); err != nil {
		return err
	}
	outcome, err := r.deps.Decisions.Append(ctx, kind, key, what, who, body)
	if err == nil && !outcome.Accepted {
		err = conflict(ReasonRace, "the %s was refused: %s", kind, outcome.Reason)
	}
	return err
}
