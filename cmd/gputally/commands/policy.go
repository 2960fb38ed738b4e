package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func policyCommand() cli.Command {
	return cli.Command{
		Use:   "policy",
		Short: "Show or set who has to approve what",
		Long: `
The policy is a decision, like an invoice. After it, decisions that it doesn't allow are refused, whatever
the configuration of the deciding service; billing.approvals can only require more. While the policy requires
approvals, changing it takes another person's approval.`,
		Examples: []string{
			"gputally policy set --data DIR --approvals on --approver alice --approver bob --by alice",
			"two people for each invoice and note",
			"gputally policy show --data DIR", "the policy in force",
		},
		Commands: []cli.Command{policyShowCommand(), policyDecideCommand(false), policyDecideCommand(true)},
	}
}

func policyShowCommand() cli.Command {
	return cli.Command{
		Use:      "show",
		Short:    "Print the policy in force",
		Examples: []string{"gputally policy show --data DIR", "who may approve?"},
		Takes:    cli.Data | cli.Output,
		Run:      func(ctx context.Context, s *cli.Session, _ []string) error { return bill.ShowPolicy(ctx, s) },
	}
}

// policyDecideCommand is set, or approve of the same flags.
func policyDecideCommand(approve bool) cli.Command {
	var approvals, comment string
	var approvers []string
	var anybody bool
	c := cli.Command{
		Use:   "set",
		Short: "Put a policy in force, from now on",
		Long: "Settings without a flag don't change. Without a policy, or while it requires no approvals, anybody may " +
			"set one.",
		Examples: []string{
			"gputally policy set --data DIR --approvals off --by alice",
			"after policy approve --approvals off --by bob",
		},
		Takes: cli.Data | cli.By,
		OneOf: []string{"approvals", "approver", "any-approver"},
		Apart: []string{"approver", "any-approver"},
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&approvals, "approvals", "",
				"`on or off`: whether invoices, notes and the next policy need another person's approval")
			flags.StringArrayVar(&approvers, "approver", nil,
				"`NAME` of who may approve; may be repeated, and replaces those of before")
			flags.BoolVar(&anybody, "any-approver", false, "anybody else may approve")
			if approve {
				flags.StringVar(&comment, "comment", "", "`TEXT` to keep with it")
			}
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			change := bill.PolicyChange{
				Approvals: approvals, Approvers: approvers, Anybody: anybody, Comment: comment,
				Approve: approve,
			}
			return bill.DecidePolicy(ctx, s, change)
		},
	}
	if approve {
		c.Use, c.Short = "approve", "Approve what somebody else is about to set"
		c.Long = "Takes the flags that policy set will be given. An approval counts for the next policy alone, and for " +
			"exactly this one."
		c.Examples = []string{
			"gputally policy approve --data DIR --approvals off --by bob",
			"then policy set --approvals off --by alice",
		}
	}
	return c
}
