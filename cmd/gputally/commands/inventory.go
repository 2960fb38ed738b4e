package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/cli"
)

func inventoryCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inventory",
		Short:   "The GPUs that there are, and taking one out",
		Args:    cobra.NoArgs,
		Example: cli.Examples("gputally inventory list --data DIR", "every GPU, where it is and until when"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(inventoryListCommand(s), inventoryRetireCommand(s), inventoryClusterCommand(s))
	return cmd
}

func inventoryListCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Every GPU that was ever listed: where, since when, until when",
		Long: "A GPU is capacity from the first slot that lists it until 24 hours after the last, or until it is retired;\n" +
			"one that is listed again is there again. A pool's slices are thousandths of a GPU; one of unknown capacity is\n" +
			"there only while it is listed.",
		Example: cli.Examples(
			"gputally inventory list --data DIR", "for people",
			"gputally inventory list --data DIR --output csv", "for scripts",
		),
		Args: cobra.NoArgs,
	}
	data, o := cli.DataFlag(cmd), cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		return app.WithLedger(ctx, s, *data, func(_ *app.Access, l *ledger.Ledger) error {
			boards, err := l.Boards(ctx)
			if err != nil {
				return err
			}
			return ask.BoardTable(boards).Write(s.Stdout, *o, cli.Colour(s.Stdout))
		})
	})
	return cmd
}

func inventoryRetireCommand(s *cli.Session) *cobra.Command {
	var r ledger.Retirement
	var at cli.Instant
	cmd := &cobra.Command{
		Use:   "retire GPU",
		Short: "Take a silent GPU out of the inventory before its 24 hours are over",
		Long: "Closes the GPU's inventory at the start of the slot that --at lies in: from then on it is no capacity, neither\n" +
			"free nor lost nor unobserved. The hours concerned are computed again. Who did it, when and why is kept for\n" +
			"ever. A GPU that is still listed can't be retired, and one that is listed again opens again by itself.",
		Example: cli.Examples(
			`gputally inventory retire GPU-6f1c… --at 2026-10-05T14:00:00Z --reason "board swapped" --data DIR`, "a swapped board",
		),
		Args: cli.ArgumentsOfUse,
	}
	data := cli.DataFlag(cmd)
	cmd.Flags().Var(&at, "at", "`TIME` from which it is gone, RFC 3339")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "`TEXT` that says why")
	cmd.Flags().StringVar(&r.Who, "by", "", "`NAME` of who retires it (default: the user that runs this)")
	cmd.Flags().StringVar(&r.Cluster, "cluster", "", "`NAME` of its cluster, where several have listed it")
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		if at.At.IsZero() || r.Reason == "" {
			return cli.UsageError(errors.New("--at TIME and --reason TEXT are needed"))
		}
		r.GPU, r.At, r.Who = args[0], at.At, cmp.Or(r.Who, cli.CurrentUser())
		return app.WithLedger(ctx, s, *data, func(a *app.Access, l *ledger.Ledger) error { return ask.Retire(ctx, s, a, l, r) })
	})
	return cmd
}

func inventoryClusterCommand(s *cli.Session) *cobra.Command {
	var slot time.Duration
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Declare a cluster that live collectors measure, and its slot length",
		Long: "Batches of a cluster that nobody declared are dead letters (reason cluster); dlq replay sends them back. A\n" +
			"standalone declares its own cluster, imports and demo theirs, and ingest takes the one of its configuration\n" +
			"(cluster.name, cluster.slot) as declared. The length never changes: a cluster of another has another name.",
		Example: cli.Examples("gputally inventory cluster prod-b --slot 10s --data DIR", "a second cluster on one ledger"),
		Args:    cli.ArgumentsOfUse,
	}
	data, by := cli.DataFlag(cmd), cli.ByFlag(cmd)
	cmd.Flags().DurationVar(&slot, "slot", 0, "`LENGTH` of its slots, such as 10s; divides the hour")
	_ = cmd.MarkFlagRequired("slot") // fails only for a flag that isn't there
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		if err := settings.ValidateSlot(slot); err != nil {
			return cli.UsageError(fmt.Errorf("--slot: %w", err))
		}
		return app.WithBroker(ctx, s, *data, func(p *app.Pipeline) error {
			if err := p.OtherSlots(ctx, args[0], slot); err != nil {
				return err
			}
			if err := p.Declare(ctx, args[0], slot, *by); err != nil {
				return err
			}
			return s.Writef("cluster %s is declared, with slots of %s\n", cli.Printable(args[0]), slot)
		})
	})
	return cmd
}
