package commands

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func policyCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show or set who has to approve what",
		Long: "The policy is a decision like an invoice: from its record on nothing stands that it does not allow, whatever the\n" +
			"configuration of who decides says; billing.approvals can only ask for more. While it wants approvals, it takes\n" +
			"another person's approval to change it.",
		Example: cli.Examples(
			"gputally policy set --data DIR --approvals on --approver alice --approver bob --by alice", "two people for each invoice and note",
			"gputally policy show --data DIR", "what holds?",
		),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(policyShowCommand(s), policyDecideCommand(s, false), policyDecideCommand(s, true))
	return cmd
}

func policyShowCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the policy in force",
		Example: cli.Examples("gputally policy show --data DIR", "who may approve?"),
		Args:    cobra.NoArgs,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			policy, set := bill.PolicyOf(p)
			t := cli.Table{Columns: append(cli.TextColumns([]string{"policy", "approvals", "approvers", "by"}), cli.Column{Name: "offset", Number: true})}
			if set {
				t.Rows = [][]string{{policy.Body.Subject(), bill.ApprovalsWord(policy.Body), bill.ApproversWord(policy.Body), policy.Who, strconv.FormatInt(policy.Offset, 10)}}
			}
			if err := t.Write(s.Stdout, *o, cli.Colour(s.Stdout)); err != nil || set || *o != cli.OutputTable {
				return err
			}
			return s.Writef("No policy was set: billing.approvals of the configuration alone says whether approvals are needed.\n")
		})
	})
	return cmd
}

// policyDecideCommand is set, or approve of the same flags.
func policyDecideCommand(s *cli.Session, approve bool) *cobra.Command {
	var approvals, comment string
	var approvers []string
	var anybody bool
	cmd := &cobra.Command{
		Use:     "set",
		Short:   "Put a policy in force, from now on",
		Long:    "What no flag names stays as it is. Without a policy, or while it wants no approvals, anybody may set one.",
		Example: cli.Examples("gputally policy set --data DIR --approvals off --by alice", "after policy approve --approvals off --by bob"),
		Args:    cobra.NoArgs,
	}
	if approve {
		cmd.Use, cmd.Short = "approve", "Approve what somebody else is about to set"
		cmd.Long = "Takes the flags that policy set will be given. An approval counts for the next policy alone, and for exactly this one."
		cmd.Example = cli.Examples("gputally policy approve --data DIR --approvals off --by bob", "then policy set --approvals off --by alice")
		cmd.Flags().StringVar(&comment, "comment", "", "`TEXT` to keep with it")
	}
	data, by := cli.DataFlag(cmd), cli.ByFlag(cmd)
	cmd.Flags().StringVar(&approvals, "approvals", "", "`on or off`: whether invoices, notes and the next policy need another person's approval")
	cmd.Flags().StringArrayVar(&approvers, "approver", nil, "`NAME` of who may approve; may be repeated, and replaces those of before")
	cmd.Flags().BoolVar(&anybody, "any-approver", false, "anybody else may approve")
	cmd.MarkFlagsMutuallyExclusive("approver", "any-approver")
	cmd.MarkFlagsOneRequired("approvals", "approver", "any-approver")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if approvals != "" && approvals != "on" && approvals != "off" {
			return cli.UsageError(fmt.Errorf("--approvals %q: want on or off", approvals))
		}
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			next := bill.NextPolicy(p)
			if approvals != "" {
				next.Approvals = approvals == "on"
			}
			if len(approvers) > 0 || anybody {
				next.Approvers = append([]string{}, approvers...)
			}
			who := cmp.Or(*by, cli.CurrentUser(), "unknown")
			if approve {
				if err := p.Register.ApprovePolicy(ctx, next, who, comment); err != nil {
					return err
				}
				return bill.SayPolicy(s, "approved", next)
			}
			if err := p.Register.SetPolicy(ctx, next, who); err != nil {
				return err
			}
			return bill.SayPolicy(s, "in force", next)
		})
	})
	return cmd
}
