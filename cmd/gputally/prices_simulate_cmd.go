package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/usage"
)

// simulateFlags say what is rated, by what.
type simulateFlags struct {
	usage, data string
	books       []string
	flat        flatRates
	currency    string
	// currencyNamed: it was asked for, and isn't the default.
	currencyNamed bool
}

func (s *session) pricesSimulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Say what a month would cost by one price book, or by several side by side",
		Long: "Rates a usage file (--usage: CSV with the columns hour, tenant, project, model, profile, profile_slices,\n" +
			"slices, bucket, slice_ms, energy_mj; an empty tenant is the platform), or a month of the ledger (--data; without\n" +
			"--prices by the configured book). With several books, and with --gpu-hour, each is a column and the first is\n" +
			"what the others are compared with. --gpu-hour is a book of list rates alone: no terms, no profile prices, no\n" +
			"energy. Of a usage file, an hour without platform rows of a model counts as supplied. Nothing is stored.",
		Example: examples(
			"gputally prices simulate --usage usage.csv --prices prices.yaml --period 2026-03 --output json", "a usage file, effect by effect",
			"gputally prices simulate --data DIR --prices today.yaml --prices next.yaml --period 2026-10", "what new prices would do to a real month",
			"gputally prices simulate --data DIR --period 2026-10 --gpu-hour 'NVIDIA H100 80GB HBM3=3.90' --gpu-hour 1.20", "against a cloud's price, 1.20 for all other models",
		),
		Args: cobra.NoArgs,
	}
	data, o, month := dataFlag(cmd), outputFlag(cmd), periodFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.usage, "usage", "", "usage `FILE` (CSV) to rate instead of a ledger")
	flags.StringArrayVar(&f.books, "prices", nil, "price book `FILE`; repeat it to compare")
	flags.Var(&f.flat, "gpu-hour", "compare with a `RATE` per GPU-hour: MODEL=RATE, or one for all models without their own; repeat it")
	flags.StringVar(&f.currency, "currency", "USD", "`CODE` of --gpu-hour where there is no --prices")
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		if f.usage != "" && flags.Changed("data") {
			return usageError{errors.New("--usage and --data: one of them, a file or a ledger")}
		}
		f.data, f.currencyNamed = *data, flags.Changed("currency")
		done, err := s.simulate(ctx, f, month.text)
		if err != nil {
			return err
		}
		return s.printSimulations(*o, month.text, done)
	})
	return cmd
}

// simulation is a month by one book.
type simulation struct {
	name     string // the book's, told apart from the others'
	book     *prices.Book
	invoices []rating.Invoice // sorted by tenant
	platform rating.Platform
}

func (s *session) simulate(ctx context.Context, f simulateFlags, period string) ([]simulation, error) {
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return nil, usageError{err}
	}
	if f.usage == "" {
		return s.simulateLedger(ctx, f, month)
	}
	rows, err := readUsageFile(ctx, f.usage)
	if err != nil {
		return nil, err
	}
	var models []string
	for _, row := range rows {
		models = append(models, row.Model)
	}
	books, err := f.load(nil, models)
	if err != nil {
		return nil, err
	}
	done := make([]simulation, 0, len(books))
	for _, book := range books {
		result, err := rating.Rate(book, month, rows, rating.Options{Simulate: true})
		if err == nil {
			err = rating.Check(result)
		}
		if err != nil {
			return nil, fmt.Errorf("simulate %s by %s: %w", f.usage, book.Name, err)
		}
		done = append(done, simulation{book: book, invoices: result.Invoices, platform: result.Platform})
	}
	return done, nil
}

func readUsageFile(ctx context.Context, path string) ([]rating.Row, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	rows, err := rating.ReadCSV(bounded.Reader(ctx, file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

func (s *session) simulateLedger(ctx context.Context, f simulateFlags, month rating.Period) (done []simulation, err error) {
	err = s.withStore(ctx, f.data, func(a *access) error {
		models, err := ledgerModels(ctx, a, month)
		if err != nil {
			return err
		}
		var configured *prices.Book
		if len(f.books) == 0 {
			if configured, err = a.book(ctx); err != nil {
				return err
			}
		}
		books, err := f.load(configured, models)
		if err != nil {
			return err
		}
		for _, book := range books {
			drafted, err := invoice.NewDrafts(a.db, book).List(ctx, month.String())
			if err != nil {
				return fmt.Errorf("simulate %s by %s: %w", month, book.Name, err)
			}
			s.tellQuarantined(drafted)
			done = append(done, ofDrafts(book, drafted))
		}
		return s.sayFrozenIn(ctx, a, month)
	})
	return done, err
}

// frozenSQL: how many stretches of hours in [from, to) are frozen. Times are
// RFC 3339 in UTC, whose order is that of the instants.
const frozenSQL = `
SELECT count() AS stretches
FROM decisions FINAL
WHERE kind = 'freeze' AND accepted = 1
  AND JSONExtractString(body, 'from') < {to:String} AND JSONExtractString(body, 'to') > {from:String}`

// sayFrozenIn tells that an invoice would not have what is simulated: a frozen
// hour keeps the shares that were decided of it.
func (s *session) sayFrozenIn(ctx context.Context, a *access, month rating.Period) error {
	from, err := time.Parse("2006-01", month.String())
	if err != nil {
		return err
	}
	var frozen []struct {
		Stretches uint64 `ch:"stretches"`
	}
	err = a.db.Select(ctx, &frozen, frozenSQL,
		store.Named("from", from.Format(time.RFC3339)), store.Named("to", from.AddDate(0, 1, 0).Format(time.RFC3339)))
	if err != nil {
		return fmt.Errorf("read frozen hours of %s: %w", month, err)
	}
	if len(frozen) > 0 && frozen[0].Stretches > 0 {
		s.sayf("hours of %s are frozen: invoices keep the distribution and reservations decided of them, and this simulation shares them out anew\n", month)
	}
	return nil
}

// ledgerModels are all models that the ledger has in a month.
func ledgerModels(ctx context.Context, a *access, month rating.Period) ([]string, error) {
	from, to := month.Range()
	rows, err := usage.Run(ctx, a.db, usage.Query{By: []string{"model"}, From: from, To: to})
	if err != nil {
		return nil, err
	}
	models := make([]string, 0, len(rows))
	for _, row := range rows {
		models = append(models, row.By[0])
	}
	return models, nil
}

func ofDrafts(book *prices.Book, drafted *invoice.Month) simulation {
	done := simulation{book: book, platform: rating.Platform{
		Currency: drafted.Currency, GPUHours: drafted.Platform.GPUHours.Decimal,
		List: drafted.Platform.List.Decimal, Distribution: drafted.Platform.Distribution.Decimal,
	}}
	for i := range drafted.Invoices {
		from := &drafted.Invoices[i]
		done.invoices = append(done.invoices, rating.Invoice{
			Tenant: from.Tenant, Period: from.Period, Currency: from.Currency,
			GPUHours: from.GPUHours.Decimal, Effects: from.Effects, Total: from.Total.Decimal,
		})
	}
	return done
}

// load reads the books to rate by, in their order; configured stands for
// --prices where none is named.
func (f *simulateFlags) load(configured *prices.Book, models []string) ([]*prices.Book, error) {
	var books []*prices.Book
	if configured != nil {
		books = append(books, configured)
	}
	for _, path := range f.books {
		book, err := prices.Load(path)
		if err != nil {
			return nil, usageError{err}
		}
		books = append(books, book)
	}
	if len(f.flat) > 0 {
		var like *prices.Book
		if len(books) > 0 {
			like = books[0]
		}
		flat, err := prices.Flat("--gpu-hour", f.currency, like, f.flat.of(models))
		if err != nil {
			return nil, usageError{err}
		}
		books = append(books, flat)
	}
	if len(books) == 0 {
		return nil, usageError{errors.New("nothing to rate by: give --prices FILE or --gpu-hour RATE")}
	}
	if f.currencyNamed && f.currency != books[0].Currency {
		return nil, usageError{fmt.Errorf("--currency %s: %s is in %s, and rates beside it are too", f.currency, books[0].Name, books[0].Currency)}
	}
	for _, book := range books[1:] {
		if book.Currency != books[0].Currency {
			return nil, usageError{fmt.Errorf("compare prices: %s is in %s, %s in %s: side by side they must be in one currency",
				books[0].Name, books[0].Currency, book.Name, book.Currency)}
		}
	}
	return books, nil
}
