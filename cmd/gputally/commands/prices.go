package commands

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/bill"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
)

func pricesCheckCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a price book and print what it says",
		Long: "Prints each version with its rates and terms, and what may be written so but is hardly meant: a profile dearer\n" +
			"than its part of the GPU, a tier dearer than the one before, a model or a minimum that a later version leaves out …\n" +
			"Every mistake is named with file, line, key and value; exit code 2 when there is one. JSON is the book in its\n" +
			"normal form, with the SHA-256 of the file that invoices name.",
		Example: cli.Examples(
			"gputally prices check prices.yaml", "before it is used",
			"gputally prices check prices.yaml --output json", "the normal form, to compare or keep",
		),
		Args: cli.ArgumentsOfUse,
	}
	o := cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(_ context.Context, args []string) error {
		book, err := bill.LoadBook(args[0])
		if err != nil {
			return err
		}
		now := s.Clock.Now().UTC()
		warnings := book.Warnings(now)
		switch *o {
		case cli.OutputJSON:
			return bill.PrintDocument(s, bill.CheckedBook{Document: book.Document(), Warnings: bill.WarningTexts(warnings)})
		case cli.OutputCSV:
			for _, warning := range warnings {
				s.Sayf("warning: %s\n", cli.Printable(warning.String()))
			}
			return bill.FactTable(book).Write(s.Stdout, *o, false)
		}
		return bill.PrintBook(s, book, warnings, now)
	})
	return cmd
}

func pricesCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "prices",
		Short:   "Check, compare, derive, try out and publish price books",
		Args:    cobra.NoArgs,
		Example: cli.Examples("gputally prices check prices.yaml", "what a price book says, and what looks wrong in it"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pricesCheckCommand(s), pricesDiffCommand(s), pricesDeriveCommand(s), pricesSimulateCommand(s), pricesLoadCommand(s))
	return cmd
}

func pricesDeriveCommand(s *cli.Session) *cobra.Command {
	var policy bill.PolicyFlag
	var models []string
	cmd := &cobra.Command{
		Use:   "derive FILE",
		Short: "Derive rates of MIG profiles from those of whole GPUs",
		Long: "Prints, for each model with MIG and each version of the price book FILE, the rate of each profile as YAML that\n" +
			"can be pasted into a book: an exact part of the whole GPU's rate, rounded half-even to 4 places. The part is\n" +
			"  compute-slice  compute slices of the GPU's 7 (A30, RTX PRO 6000: 4), as unpriced profiles are priced\n" +
			"  memory         memory slices of the GPU's 8 (4)\n" +
			"  sm             SMs of those that the GPU's largest profile has\n" +
			"  dominant       the larger of compute-slice and memory\n" +
			"To use the rates, put the profiles of each model into the same version of the book.",
		Example: cli.Examples(
			"gputally prices derive --policy dominant prices.yaml", "rates to look at, or to paste",
			"gputally prices derive --policy memory prices.yaml --model 'NVIDIA H200'", "one model's",
		),
		Args: cli.ArgumentsOfUse,
	}
	flags := cmd.Flags()
	flags.Var(&policy, "policy", "the `POLICY`: compute-slice, memory, sm or dominant")
	flags.StringArrayVar(&models, "model", nil, "only this `MODEL`; repeat it for more")
	if err := cmd.MarkFlagRequired("policy"); err != nil {
		panic(err) // the flag was defined a few lines above
	}
	cmd.RunE = s.Run(func(_ context.Context, args []string) error { return bill.Derive(s, args[0], policy.Policy, models) })
	return cmd
}

func pricesDiffCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what changes between two price books, and from which hour on",
		Long: "Compares what is in force hour by hour: a version that was only cut in two is no change, and a change of a\n" +
			"version lasts until both books say the same again. Changes of hours that are over are marked past: they would\n" +
			"price what was used already, and touch drafts of months not yet finalised.",
		Example: cli.Examples(
			"gputally prices diff prices.yaml next.yaml", "what a new book would change",
			"gputally prices diff prices.yaml next.yaml --output json", "for a review by script",
		),
		Args: cli.ArgumentsOfUse,
	}
	o := cli.OutputFlag(cmd)
	cmd.RunE = s.Run(func(_ context.Context, args []string) error {
		before, err := bill.LoadBook(args[0])
		if err != nil {
			return err
		}
		after, err := bill.LoadBook(args[1])
		if err != nil {
			return err
		}
		changes := prices.Diff(before, after, s.Clock.Now().UTC())
		if len(changes) == 0 && *o == cli.OutputTable {
			return s.Writef("no change: both price every hour alike\n")
		}
		return bill.ChangeTable(changes, *o == cli.OutputTable).Write(s.Stdout, *o, cli.Colour(s.Stdout))
	})
	return cmd
}

func pricesLoadCommand(s *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load FILE",
		Short: "Publish a price book: it is in force from now on",
		Long: "Writes the book into the decisions, for ever, with who published it. Drafts are by the published book from then on,\n" +
			"whatever billing.prices names; finalised invoices and their notes keep the book they were made by. What changes and\n" +
			"from which hour is printed; prices diff shows it beforehand. A file that another user could have written is refused.",
		Example: cli.Examples("gputally prices load prices.yaml --data DIR --by finance", "put it in force"),
		Args:    cli.ArgumentsOfUse,
	}
	data, by, key := cli.DataFlag(cmd), cli.ByFlag(cmd), cli.KeyFlag(cmd)
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		if err := settings.Trusted(args[0]); err != nil {
			return err
		}
		book, err := bill.LoadBook(args[0])
		if err != nil {
			return err
		}
		book.Name = filepath.Base(book.Name)
		return app.WithRegister(ctx, s, *data, func(p *app.Pipeline) error {
			return bill.LoadPrices(ctx, s, p, book, cmp.Or(*by, cli.CurrentUser(), "unknown"), *key)
		})
	})
	return cmd
}

func pricesSimulateCommand(s *cli.Session) *cobra.Command {
	var f bill.SimulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Say what a month would cost by one price book, or by several side by side",
		Long: "Rates a usage file (--usage: CSV with the columns hour, tenant, project, model, profile, profile_slices,\n" +
			"slices, bucket, slice_ms, energy_mj; an empty tenant is the platform), or a month of the ledger (--data; without\n" +
			"--prices by the configured book). With several books, and with --gpu-hour, each is a column and the first is\n" +
			"what the others are compared with. --gpu-hour is a book of list rates alone: no terms, no profile prices, no\n" +
			"energy. Of a usage file, an hour without platform rows of a model counts as supplied. Nothing is stored.",
		Example: cli.Examples(
			"gputally prices simulate --usage usage.csv --prices prices.yaml --period 2026-03 --output json", "a usage file, effect by effect",
			"gputally prices simulate --data DIR --prices today.yaml --prices next.yaml --period 2026-10", "what new prices would do to a real month",
			"gputally prices simulate --data DIR --period 2026-10 --gpu-hour 'NVIDIA H100 80GB HBM3=3.90' --gpu-hour 1.20", "against a cloud's price, 1.20 for all other models",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := cli.DataFlag(cmd), cli.OutputFlag(cmd), cli.PeriodFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.Usage, "usage", "", "usage `FILE` (CSV) to rate instead of a ledger")
	flags.StringArrayVar(&f.Books, "prices", nil, "price book `FILE`; repeat it to compare")
	flags.Var(&f.Flat, "gpu-hour", "compare with a `RATE` per GPU-hour: MODEL=RATE, or one for all models without their own; repeat it")
	flags.StringVar(&f.Currency, "currency", "USD", "`CODE` of --gpu-hour where there is no --prices")
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if f.Usage != "" && flags.Changed("data") {
			return cli.UsageError(errors.New("--usage and --data: one of them, a file or a ledger"))
		}
		f.Data, f.CurrencyNamed = *data, flags.Changed("currency")
		done, err := bill.Simulate(ctx, s, f, month.Text)
		if err != nil {
			return err
		}
		return bill.PrintSimulations(s, *o, month.Text, done)
	})
	return cmd
}
