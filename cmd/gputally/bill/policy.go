package bill

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
)

// ShowPolicy prints the policy in force.
func ShowPolicy(ctx context.Context, s *cli.Session) error {
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		policy, set := policyOf(p)
		t := cli.Table{Columns: cli.Columns("policy", "approvals", "approvers", "by", "offset number")}
		if set {
			b := policy.Body
			t.Rows = [][]string{{
				b.Subject(), onOff(b.Approvals), approversWord(b), policy.Who,
				strconv.FormatInt(policy.Offset, 10),
			}}
		}
		if err := s.Print(t); err != nil || set || s.Format != cli.AsTable {
			return err
		}
		return s.Writef("No policy was set: only billing.approvals of the configuration determines whether approvals are " +
			"needed.\n")
	})
}

func policyOf(p *app.Pipeline) (policy decisions.Decided[decisions.Policy], set bool) {
	p.Decisions.View(func(state *decisions.State) { policy, set = state.Policy() })
	return policy, set
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func approversWord(p decisions.Policy) string {
	return cmp.Or(strings.Join(p.Approvers, ", "), "anybody else")
}

// PolicyChange has the differences of the next policy to the one in force.
type PolicyChange struct {
	Approvals string   // on or off; empty: unchanged
	Approvers []string // none: unchanged, unless Anybody
	Anybody   bool     // anybody else may approve
	// Approve approves the policy of these flags, with a comment, instead of setting it.
	Approve bool
	Comment string
}

// DecidePolicy sets the next policy, or approves one that somebody else is about to set.
func DecidePolicy(ctx context.Context, s *cli.Session, c PolicyChange) error {
	if c.Approvals != "" && c.Approvals != "on" && c.Approvals != "off" {
		return cli.UsageError(fmt.Errorf("--approvals %q: want on or off", c.Approvals))
	}
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		next := nextPolicy(p)
		if c.Approvals != "" {
			next.Approvals = c.Approvals == "on"
		}
		if len(c.Approvers) > 0 || c.Anybody {
			next.Approvers = append([]string{}, c.Approvers...)
		}
		what, decide := "in force", p.Register.SetPolicy
		if c.Approve {
			what = "approved"
			decide = func(ctx context.Context, next decisions.Policy, who string) error {
				return p.Register.ApprovePolicy(ctx, next, who, c.Comment)
			}
		}
		if err := decide(ctx, next, s.Who()); err != nil {
			return err
		}
		return s.Writef("%s is %s: approvals %s, by %s (content %s)\n",
			next.Subject(), what, onOff(next.Approvals), cli.Printable(approversWord(next)), next.Content())
	})
}

// nextPolicy is a copy of the one in force with the next revision.
func nextPolicy(p *app.Pipeline) decisions.Policy {
	last, set := policyOf(p)
	if !set {
		return decisions.Policy{Approvers: []string{}}
	}
	next := last.Body
	next.Revision++
	next.Approval = ""
	return next
}
