package bill

import (
	"cmp"
	"strings"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

func PolicyOf(p *app.Pipeline) (policy decisions.Decided[decisions.Policy], set bool) {
	p.Decisions.View(func(state *decisions.State) { policy, set = state.Policy() })
	return policy, set
}

func ApprovalsWord(p decisions.Policy) string {
	if p.Approvals {
		return "on"
	}
	return "off"
}

func ApproversWord(p decisions.Policy) string {
	return cmp.Or(strings.Join(p.Approvers, ", "), "anybody else")
}

// NextPolicy is the one in force, as the one after it.
func NextPolicy(p *app.Pipeline) decisions.Policy {
	last, set := PolicyOf(p)
	if !set {
		return decisions.Policy{Approvers: []string{}}
	}
	next := last.Body
	next.Revision++
	next.Approval = ""
	return next
}

func SayPolicy(s *cli.Session, what string, p decisions.Policy) error {
	return s.Writef("%s is %s: approvals %s, by %s (content %s)\n", p.Subject(), what, ApprovalsWord(p), cli.Printable(ApproversWord(p)), p.Content())
}
