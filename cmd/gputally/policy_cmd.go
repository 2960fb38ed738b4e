package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/decisions"
)

func (s *session) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show or set who has to approve what",
		Long: "The policy is a decision like an invoice: from its record on nothing stands that it does not allow, whatever the\n" +
			"configuration of who decides says; billing.approvals can only ask for more. While it wants approvals, it takes\n" +
			"another person's approval to change it.",
		Example: examples(
			"gputally policy set --data DIR --approvals on --approver alice --approver bob --by alice", "two people for each invoice and note",
			"gputally policy show --data DIR", "what holds?",
		),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.policyShowCommand(), s.policyDecideCommand(false), s.policyDecideCommand(true))
	return cmd
}

func (s *session) policyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the policy in force",
		Example: examples("gputally policy show --data DIR", "who may approve?"),
		Args:    cobra.NoArgs,
	}
	data, o := dataFlag(cmd), outputFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			policy, set := policyOf(p)
			t := table{columns: append(textColumns([]string{"policy", "approvals", "approvers", "by"}), column{name: "offset", number: true})}
			if set {
				t.rows = [][]string{{policy.Body.Subject(), approvalsWord(policy.Body), approversWord(policy.Body), policy.Who, strconv.FormatInt(policy.Offset, 10)}}
			}
			if err := t.write(s.stdout, *o, colour(s.stdout)); err != nil || set || *o != outputTable {
				return err
			}
			return s.writef("No policy was set: billing.approvals of the configuration alone says whether approvals are needed.\n")
		})
	})
	return cmd
}

func policyOf(p *pipeline) (policy decisions.Decided[decisions.Policy], set bool) {
	p.decisions.View(func(state *decisions.State) { policy, set = state.Policy() })
	return policy, set
}

func approvalsWord(p decisions.Policy) string {
	if p.Approvals {
		return "on"
	}
	return "off"
}

func approversWord(p decisions.Policy) string {
	return cmp.Or(strings.Join(p.Approvers, ", "), "anybody else")
}

// policyDecideCommand is set, or approve of the same flags.
func (s *session) policyDecideCommand(approve bool) *cobra.Command {
	var approvals, comment string
	var approvers []string
	var anybody bool
	cmd := &cobra.Command{
		Use:     "set",
		Short:   "Put a policy in force, from now on",
		Long:    "What no flag names stays as it is. Without a policy, or while it wants no approvals, anybody may set one.",
		Example: examples("gputally policy set --data DIR --approvals off --by alice", "after policy approve --approvals off --by bob"),
		Args:    cobra.NoArgs,
	}
	if approve {
		cmd.Use, cmd.Short = "approve", "Approve what somebody else is about to set"
		cmd.Long = "Takes the flags that policy set will be given. An approval counts for the next policy alone, and for exactly this one."
		cmd.Example = examples("gputally policy approve --data DIR --approvals off --by bob", "then policy set --approvals off --by alice")
		cmd.Flags().StringVar(&comment, "comment", "", "`TEXT` to keep with it")
	}
	data, by := dataFlag(cmd), byFlag(cmd)
	cmd.Flags().StringVar(&approvals, "approvals", "", "`on or off`: whether invoices, notes and the next policy need another person's approval")
	cmd.Flags().StringArrayVar(&approvers, "approver", nil, "`NAME` of who may approve; may be repeated, and replaces those of before")
	cmd.Flags().BoolVar(&anybody, "any-approver", false, "anybody else may approve")
	cmd.MarkFlagsMutuallyExclusive("approver", "any-approver")
	cmd.MarkFlagsOneRequired("approvals", "approver", "any-approver")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if approvals != "" && approvals != "on" && approvals != "off" {
			return usageError{fmt.Errorf("--approvals %q: want on or off", approvals)}
		}
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			next := nextPolicy(p)
			if approvals != "" {
				next.Approvals = approvals == "on"
			}
			if len(approvers) > 0 || anybody {
				next.Approvers = append([]string{}, approvers...)
			}
			who := cmp.Or(*by, currentUser(), "unknown")
			if approve {
				if err := p.register.ApprovePolicy(ctx, next, who, comment); err != nil {
					return err
				}
				return s.sayPolicy("approved", next)
			}
			if err := p.register.SetPolicy(ctx, next, who); err != nil {
				return err
			}
			return s.sayPolicy("in force", next)
		})
	})
	return cmd
}

// nextPolicy is the one in force, as the one after it.
func nextPolicy(p *pipeline) decisions.Policy {
	last, set := policyOf(p)
	if !set {
		return decisions.Policy{Approvers: []string{}}
	}
	next := last.Body
	next.Revision++
	next.Approval = ""
	return next
}

func (s *session) sayPolicy(what string, p decisions.Policy) error {
	return s.writef("%s is %s: approvals %s, by %s (content %s)\n", p.Subject(), what, approvalsWord(p), printable(approversWord(p)), p.Content())
}
