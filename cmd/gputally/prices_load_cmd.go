package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/decisions"
)

func (s *session) pricesLoadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load FILE",
		Short: "Publish a price book: it is in force from now on",
		Long: "Writes the book into the decisions, for ever, with who published it. Drafts are by the published book from then on,\n" +
			"whatever billing.prices names; finalised invoices and their notes keep the book they were made by. What changes and\n" +
			"from which hour is printed; prices diff shows it beforehand. A file that another user could have written is refused.",
		Example: examples("gputally prices load prices.yaml --data DIR --by finance", "put it in force"),
		Args:    argumentsOfUse,
	}
	data, by, key := dataFlag(cmd), byFlag(cmd), keyFlag(cmd)
	cmd.RunE = s.run(func(ctx context.Context, args []string) error {
		if err := trusted(args[0]); err != nil {
			return err
		}
		book, err := loadBook(args[0])
		if err != nil {
			return err
		}
		book.Name = filepath.Base(book.Name)
		return s.withRegister(ctx, *data, func(p *pipeline) error {
			return s.loadPrices(ctx, p, book, cmp.Or(*by, currentUser(), "unknown"), *key)
		})
	})
	return cmd
}

func (s *session) loadPrices(ctx context.Context, p *pipeline, book *prices.Book, who, key string) error {
	before, unreadable := p.register.Book(ctx)
	published, err := p.register.Publish(ctx, book, who, key)
	if err != nil {
		return err
	}
	if !published {
		return s.writef("%s is in force already (SHA-256 %s)\n", printable(book.Name), book.Hash)
	}
	if unreadable != nil { // it is mended by this one
		before = book
		s.sayf("the book before can't be compared: %s\n", printableLines(unreadable.Error()))
	}
	if err := s.sayPublished(before, book); err != nil {
		return err
	}
	periods, err := p.register.FinalisedPeriods(ctx)
	if err != nil {
		return err
	}
	if len(periods) > 0 {
		err = s.writef("finalised invoices of %d months, the last of %s, keep the book they were made by\n", len(periods), periods[len(periods)-1])
	}
	return errors.Join(err, s.sayFrozen(p))
}

// sayFrozen tells which hours' distribution and supply no book changes any more.
func (s *session) sayFrozen(p *pipeline) error {
	var frozen []decisions.Decided[decisions.Freeze]
	p.decisions.View(func(state *decisions.State) { frozen = state.Freezes() })
	if len(frozen) == 0 {
		return nil
	}
	last := frozen[len(frozen)-1].Body.To
	return s.writef("distribution and reservations of hours before %s stay as they were frozen\n", last.Format(time.RFC3339))
}

// sayPublished tells what a book changes, in comparison with the one before it.
func (s *session) sayPublished(before, book *prices.Book) error {
	if before.Hash == book.Hash { // the configured book, which nobody had published
		return s.writef("%s is in force (SHA-256 %s), as it was, from now on whatever billing.prices names\n", printable(book.Name), book.Hash)
	}
	err := s.writef("%s is in force (SHA-256 %s); before it was %s (SHA-256 %s)\n", printable(book.Name), book.Hash, printable(before.Name), before.Hash)
	if err != nil {
		return err
	}
	changes := prices.Diff(before, book, s.clock.Now().UTC())
	if len(changes) == 0 {
		return s.writef("no change: both price every hour alike\n")
	}
	return changeTable(changes, true).write(s.stdout, outputTable, colour(s.stdout))
}
