package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/internal/cli"
)

func pricesCheckCommand() cli.Command {
	return cli.Command{
		Use:   "check FILE",
		Short: "Check a price book and print what it says",
		Long: `
Prints each version with its rates and terms, and warns of what is valid but probably not intended: a profile dearer
than its part of the GPU, a tier dearer than the one before, a model or a minimum that a later version leaves out …
Every mistake is named with file, line, key and value; exit code 2 when there is one. JSON is the book in its
normal form, with the SHA-256 of the file that invoices name.`,
		Examples: []string{
			"gputally prices check prices.yaml", "before it is used",
			"gputally prices check prices.yaml --output json", "the normal form, to compare or keep",
		},
		Takes: cli.Output,
		Run:   func(_ context.Context, s *cli.Session, args []string) error { return bill.CheckPrices(s, args[0]) },
	}
}

func pricesCommand() cli.Command {
	return cli.Command{
		Use:      "prices",
		Short:    "Check, compare, derive, try out and publish price books",
		Examples: []string{"gputally prices check prices.yaml", "what a price book says, and what looks wrong in it"},
		Commands: []cli.Command{
			pricesCheckCommand(), pricesDiffCommand(), pricesDeriveCommand(), pricesSimulateCommand(),
			pricesLoadCommand(),
		},
	}
}

func pricesDeriveCommand() cli.Command {
	var policy bill.Policy
	var models []string
	return cli.Command{
		Use:   "derive FILE",
		Short: "Derive rates of MIG profiles from those of whole GPUs",
		Long: `
Prints, for each model with MIG and each version of the price book FILE, the rate of each profile as YAML that
can be pasted into a book: an exact part of the whole GPU's rate, rounded half-even to 4 places. The part is
  compute-slice  compute slices of the GPU's 7 (A30, RTX PRO 6000: 4), as unpriced profiles are priced
  memory         memory slices of the GPU's 8 (4)
  sm             SMs of those that the GPU's largest profile has
  dominant       the larger of compute-slice and memory
To use the rates, put the profiles of each model into the same version of the book.`,
		Examples: []string{
			"gputally prices derive --policy dominant prices.yaml", "rates to look at, or to paste",
			"gputally prices derive --policy memory prices.yaml --model 'NVIDIA H200'", "one model's",
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.Func("policy", "the `POLICY`: compute-slice, memory, sm or dominant", cli.Into(&policy, bill.ParsePolicy))
			flags.StringArrayVar(&models, "model", nil, "only this `MODEL`; repeat it for more")
		},
		Needs: []string{"policy"},
		Run: func(_ context.Context, s *cli.Session, args []string) error {
			return bill.Derive(s, args[0], policy, models)
		},
	}
}

func pricesDiffCommand() cli.Command {
	return cli.Command{
		Use:   "diff OLD NEW",
		Short: "Say what changes between two price books, and from which hour on",
		Long: `Compares what is in force hour by hour: a version that was only cut in two is no change, and a change of a
version lasts until both books say the same again. Changes of hours that are over are marked past: they would
price what was used already, and touch drafts of months not yet finalised.`,
		Examples: []string{
			"gputally prices diff prices.yaml next.yaml", "what a new book would change",
			"gputally prices diff prices.yaml next.yaml --output json", "for a review by script",
		},
		Takes: cli.Output,
		Run: func(_ context.Context, s *cli.Session, args []string) error {
			return bill.DiffPrices(s, args[0], args[1])
		},
	}
}

func pricesLoadCommand() cli.Command {
	return cli.Command{
		Use:   "load FILE",
		Short: "Publish a price book: it is in force from now on",
		Long: `
Publishes the book permanently, as a decision that names who published it. From then on drafts use it, whatever
billing.prices names; finalised invoices and their notes keep the book they were made by. What changes and
from which hour is printed; prices diff shows it beforehand. A file that another user could have written is refused.`,
		Examples: []string{"gputally prices load prices.yaml --data DIR --by finance", "put it in force"},
		Takes:    cli.Data | cli.By | cli.Key,
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			return bill.PublishPrices(ctx, s, args[0])
		},
	}
}

func pricesSimulateCommand() cli.Command {
	var f bill.SimulateFlags
	return cli.Command{
		Use:   "simulate",
		Short: "Say what a month would cost by one price book, or by several side by side",
		Long: `Rates a usage file (--usage: CSV with the columns hour, tenant, project, model, profile, profile_slices,
slices, bucket, slice_ms, energy_mj; an empty tenant is the platform), or a month of the ledger (--data; without
--prices by the configured book). With several books, and with --gpu-hour, each is a column and the first is
what the others are compared with. --gpu-hour is a book of list rates alone: no terms, no profile prices, no
energy. Of a usage file, an hour without platform rows of a model counts as supplied. Nothing is stored.`,
		Examples: []string{
			"gputally prices simulate --usage usage.csv --prices prices.yaml --period 2026-03 --output json",
			"a usage file, effect by effect",
			"gputally prices simulate --data DIR --prices today.yaml --prices next.yaml --period 2026-10",
			"what new prices would do to a real month",
			"gputally prices simulate --data DIR --period 2026-10 --gpu-hour 'NVIDIA H100 80GB HBM3=3.90' --gpu-hour 1.20",
			"against a cloud's price, 1.20 for all other models",
		},
		Takes: cli.Data | cli.Output | cli.Period,
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&f.Usage, "usage", "", "usage `FILE` (CSV) to rate instead of a ledger")
			flags.StringArrayVar(&f.Books, "prices", nil, "price book `FILE`; repeat it to compare")
			flags.Func("gpu-hour",
				"compare with a `RATE` per GPU-hour: MODEL=RATE, or one for all models without their own; repeat it", f.Flat.Set)
			flags.StringVar(&f.Currency, "currency", "USD", "`CODE` of --gpu-hour where there is no --prices")
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error { return bill.Simulate(ctx, s, f) },
	}
}
