package bill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/usage"
)

// SimulateFlags select what is rated, and by which books.
type SimulateFlags struct {
	Usage    string // file; empty: a month of the ledger
	Books    []string
	Flat     flatRates
	Currency string
	// currencyNamed: --currency was given.
	currencyNamed bool
}

// simulation is a month by one book.
type simulation struct {
	name     string // the book's, distinct from the others'
	book     *prices.Book
	invoices []rating.Invoice // sorted by tenant
	platform rating.Platform
}

// Simulate prints what a month would cost by each of the books.
func Simulate(ctx context.Context, s *cli.Session, f SimulateFlags) error {
	if f.Usage != "" && s.Given("data") {
		return cli.UsageError(errors.New("--usage and --data: give one of them, a file or a ledger"))
	}
	f.currencyNamed = s.Given("currency")
	done, err := simulate(ctx, s, f, s.Month.Text)
	if err != nil {
		return err
	}
	return printSimulations(s, s.Month.Text, done)
}

func simulate(ctx context.Context, s *cli.Session, f SimulateFlags, period string) ([]simulation, error) {
	month, err := rating.ParsePeriod(period)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	if f.Usage == "" {
		return simulateLedger(ctx, s, f, month)
	}
	rows, err := readUsageFile(ctx, f.Usage)
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
			return nil, fmt.Errorf("simulate %s by %s: %w", f.Usage, book.Name, err)
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
	defer func() { _ = file.Close() }() // opened for reading only
	rows, err := rating.ReadCSV(bounded.Reader(ctx, file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

func simulateLedger(ctx context.Context, s *cli.Session, f SimulateFlags,
	month rating.Period,
) (done []simulation, err error) {
	err = app.WithStore(ctx, s, func(a *app.Access) error {
		models, err := ledgerModels(ctx, a, month)
		if err != nil {
			return err
		}
		var configured *prices.Book
		if len(f.Books) == 0 {
			if configured, err = a.Book(ctx); err != nil {
				return err
			}
		}
		books, err := f.load(configured, models)
		if err != nil {
			return err
		}
		for _, book := range books {
			drafted, err := invoice.NewDrafts(a.DB, book).List(ctx, month.String())
			if err != nil {
				return fmt.Errorf("simulate %s by %s: %w", month, book.Name, err)
			}
			tellQuarantined(s, drafted)
			done = append(done, simulation{book: book, invoices: drafted.Invoices, platform: drafted.Platform})
		}
		return sayFrozenIn(ctx, s, a, month)
	})
	return done, err
}

// frozenSQL counts the frozen ranges of hours in [from, to). Times are RFC 3339 in UTC, whose order is that of the
// instants.
const frozenSQL = `
SELECT count() AS stretches
FROM decisions FINAL
WHERE kind = 'freeze' AND accepted = 1
  AND JSONExtractString(body, 'from') < {to:String} AND JSONExtractString(body, 'to') > {from:String}`

// sayFrozenIn prints that an invoice would differ from the simulation: a frozen hour keeps its distribution.
func sayFrozenIn(ctx context.Context, s *cli.Session, a *app.Access, month rating.Period) error {
	from, err := time.Parse("2006-01", month.String())
	if err != nil {
		return err
	}
	var frozen []struct {
		Stretches uint64 `ch:"stretches"`
	}
	err = a.DB.Select(ctx, &frozen, frozenSQL,
		store.Named("from", from.Format(time.RFC3339)), store.Named("to", from.AddDate(0, 1, 0).Format(time.RFC3339)))
	if err != nil {
		return fmt.Errorf("read frozen hours of %s: %w", month, err)
	}
	if len(frozen) > 0 && frozen[0].Stretches > 0 {
		s.Sayf("hours of %s are frozen: invoices keep the distribution and reservations decided of them, and this "+
			"simulation calculates them again\n", month)
	}
	return nil
}

// ledgerModels are all models of the ledger in a month.
func ledgerModels(ctx context.Context, a *app.Access, month rating.Period) ([]string, error) {
	from, to := month.Range()
	rows, err := usage.Run(ctx, a.DB, usage.Query{By: []string{"model"}, From: from, To: to})
	if err != nil {
		return nil, err
	}
	models := make([]string, 0, len(rows))
	for _, row := range rows {
		models = append(models, row.By[0])
	}
	return models, nil
}

// load reads the books by which to rate, in their order; configured is used if --prices is not given.
func (f *SimulateFlags) load(configured *prices.Book, models []string) ([]*prices.Book, error) {
	var books []*prices.Book
	if configured != nil {
		books = append(books, configured)
	}
	for _, path := range f.Books {
		book, err := prices.Load(path)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		books = append(books, book)
	}
	if len(f.Flat) > 0 {
		var like *prices.Book
		if len(books) > 0 {
			like = books[0]
		}
		flat, err := prices.Flat("--gpu-hour", f.Currency, like, f.Flat.of(models))
		if err != nil {
			return nil, cli.UsageError(err)
		}
		books = append(books, flat)
	}
	if len(books) == 0 {
		return nil, cli.UsageError(errors.New("no prices: give --prices FILE or --gpu-hour RATE"))
	}
	if f.currencyNamed && f.Currency != books[0].Currency {
		return nil, cli.UsageError(
			fmt.Errorf("--currency %s: %s is in %s, and so are the --gpu-hour rates beside it: leave --currency out", f.Currency,
				books[0].Name, books[0].Currency))
	}
	for _, book := range books[1:] {
		if book.Currency != books[0].Currency {
			return nil, cli.UsageError(
				fmt.Errorf("compare prices: %s is in %s, %s in %s: side by side they must be in one currency",
					books[0].Name, books[0].Currency, book.Name, book.Currency))
		}
	}
	return books, nil
}
