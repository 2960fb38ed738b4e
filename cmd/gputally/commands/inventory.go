package commands

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/ask"
	"github.com/gputally/gputally/cmd/gputally/load"
	"github.com/gputally/gputally/internal/cli"
)

func inventoryCommand() cli.Command {
	return cli.Command{
		Use:      "inventory",
		Short:    "List the GPUs, retire one, declare a cluster",
		Examples: []string{"gputally inventory list --data DIR", "every GPU, where it is and until when"},
		Commands: []cli.Command{inventoryListCommand(), inventoryRetireCommand(), inventoryClusterCommand()},
	}
}

func inventoryListCommand() cli.Command {
	return cli.Command{
		Use:   "list",
		Short: "Every GPU that was ever listed: where, since when, until when",
		Long: `A GPU is capacity from the first slot that lists it until 24 hours after the last, or until it is retired;
one that is listed again is there again. A pool's slices are thousandths of a GPU; one of unknown capacity is
there only while it is listed.`,
		Examples: []string{
			"gputally inventory list --data DIR", "for people",
			"gputally inventory list --data DIR --output csv", "for scripts",
		},
		Takes: cli.Data | cli.Output,
		Run:   func(ctx context.Context, s *cli.Session, _ []string) error { return ask.Inventory(ctx, s) },
	}
}

func inventoryRetireCommand() cli.Command {
	var at cli.Instant
	var cluster, reason string
	return cli.Command{
		Use:   "retire GPU",
		Short: "Take a silent GPU out of the inventory before its 24 hours are over",
		Long: `
Removes the GPU from the inventory at the start of the slot that contains --at: from then on it is not
counted as capacity. The hours concerned are computed again. Who did it, when and why is kept for
ever. A GPU that is still listed can't be retired, and one that is listed again returns to the inventory.`,
		Examples: []string{
			`gputally inventory retire GPU-6f1c… --at 2026-10-05T14:00:00Z --reason "board swapped" --data DIR`,
			"a swapped board",
		},
		Takes: cli.Data | cli.By,
		Flags: func(flags *pflag.FlagSet) {
			flags.Var(&at, "at", "`TIME` from which it is gone, RFC 3339")
			flags.StringVar(&reason, "reason", "", "`TEXT` that says why")
			flags.StringVar(&cluster, "cluster", "", "`NAME` of its cluster, where several have listed it")
		},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return ask.RetireGPU(ctx, s, args[0], at, cluster, reason)
		},
	}
}

func inventoryClusterCommand() cli.Command {
	var slot time.Duration
	return cli.Command{
		Use:   "cluster NAME",
		Short: "Declare a cluster that live collectors measure, and its slot length",
		Long: `Batches of an undeclared cluster become dead letters (reason cluster); dlq replay sends them again. A
standalone declares its own cluster, imports and demo theirs, and the cluster in ingest's configuration
(cluster.name, cluster.slot) counts as declared. The slot length never changes: for another one, declare a cluster
with a new name.`,
		Examples: []string{"gputally inventory cluster prod-b --slot 10s --data DIR", "a second cluster on one ledger"},
		Takes:    cli.Data | cli.By,
		Flags: func(flags *pflag.FlagSet) {
			flags.DurationVar(&slot, "slot", 0, "`LENGTH` of its slots, such as 10s; divides the hour")
		},
		Needs: []string{"slot"},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return load.DeclareCluster(ctx, s, args[0], slot)
		},
	}
}
