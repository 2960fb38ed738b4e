package invoice

import (
	"context"

	"github.com/gputally/gputally/internal/decisions"
)

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
	return r.append(ctx, state, decisions.KindApproval, "approval/"+request(body.Subject, content, who), request("approval", body.Subject, content), who, body)
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
func (r *Register) append(ctx context.Context, state decidedState, kind decisions.Kind, key, what, who string, body any) error {
	if err := r.check(state, kind, key, what, who, body); err != nil {
		return err
	}
	outcome, err := r.deps.Decisions.Append(ctx, kind, key, what, who, body)
	if err == nil && !outcome.Accepted {
		err = conflict(ReasonRace, "the %s was refused: %s", kind, outcome.Reason)
	}
	return err
}
