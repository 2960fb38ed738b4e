package bill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/plural"
)

// Policy is the name of a way to derive profile rates.
type Policy = prices.Policy

// ParsePolicy parses a policy's name.
func ParsePolicy(text string) (Policy, error) { return prices.ParsePolicy(text) }

// Derive prints the rates of MIG profiles derived from those of whole GPUs.
func Derive(s *cli.Session, path string, policy prices.Policy, models []string) error {
	book, err := loadBook(path)
	if err != nil {
		return err
	}
	derived, err := prices.Derive(book, policy, models)
	if err != nil && len(models) == 0 {
		err = fmt.Errorf("%w\n--model MODEL derives the rates of one model, without the others", err)
	}
	if err != nil {
		return cli.UsageError(err)
	}
	if len(derived) == 0 {
		return cli.UsageError(fmt.Errorf("derive profile rates: %s has no model with MIG", path))
	}
	return s.Writef("# %s of each whole GPU's rate, rounded half-even to 4 places\n%s", policy, prices.YAML(derived))
}

// changeTable has a row per change. Values are text: one may be a zone.
func changeTable(changes []prices.Change, forReading bool) cli.Table {
	t := cli.Table{Columns: cli.Columns("from", "until", "change", "kind", "name", "item wide", "old", "new",
		"percent number", "past")}
	for _, c := range changes {
		from, until, past := cli.RFC3339(c.From), cli.RFC3339(c.Until), ""
		if forReading && from == "" {
			from = "always"
		}
		if c.Past {
			past = "past"
		}
		percent := c.Percent
		if forReading && percent != "" && !strings.HasPrefix(percent, "-") {
			percent = "+" + percent
		}
		t.Rows = append(t.Rows, []string{
			from, until, changeName(c), c.Kind, c.Name, c.Item, textOf(c.Old), textOf(c.New), percent, past,
		})
	}
	return t
}

func changeName(c prices.Change) string {
	switch {
	case c.Old == nil:
		return "added"
	case c.New == nil:
		return "gone"
	}
	return "changed"
}

func textOf(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func loadPrices(ctx context.Context, s *cli.Session, p *app.Pipeline, book *prices.Book) error {
	before, unreadable := p.Register.Book(ctx)
	published, err := p.Register.Publish(ctx, book, s.Who(), s.Key)
	if err != nil {
		return err
	}
	if !published {
		return s.Writef("%s is in force already (SHA-256 %s)\n", cli.Printable(book.Name), book.Hash)
	}
	if unreadable != nil { // publishing a readable book repairs that
		before = book
		s.Sayf("the previous price book can't be read, so changes from it are not listed: %s\n", unreadable)
	}
	if err := sayPublished(s, before, book); err != nil {
		return err
	}
	periods, err := p.Register.FinalisedPeriods(ctx)
	if err != nil {
		return err
	}
	if len(periods) > 0 {
		err = s.Writef("finalised invoices keep the price book that they were calculated with: %s, the last is %s\n",
			plural.Of(len(periods), "month"),
			periods[len(periods)-1])
	}
	return errors.Join(err, sayFrozen(s, p))
}

// sayFrozen prints up to when distribution and reservations are frozen: no new price book
// changes those hours.
func sayFrozen(s *cli.Session, p *app.Pipeline) error {
	var frozen []decisions.Decided[decisions.Freeze]
	p.Decisions.View(func(state *decisions.State) { frozen = state.Freezes() })
	if len(frozen) == 0 {
		return nil
	}
	last := frozen[len(frozen)-1].Body.To
	return s.Writef("distribution and reservations of hours before %s are frozen: this book does not change them\n",
		last.Format(time.RFC3339))
}

// sayPublished prints what a book changes, compared with the previous one.
func sayPublished(s *cli.Session, before, book *prices.Book) error {
	if before.Hash == book.Hash { // the configured book, which was not published
		return s.Writef("%s remains in force (SHA-256 %s), from now on regardless of billing.prices\n",
			cli.Printable(book.Name), book.Hash)
	}
	err := s.Writef("%s is in force (SHA-256 %s); before it was %s (SHA-256 %s)\n", cli.Printable(book.Name), book.Hash,
		cli.Printable(before.Name), before.Hash)
	if err != nil {
		return err
	}
	changes := prices.Diff(before, book, s.Clock.Now().UTC())
	if len(changes) == 0 {
		return s.Writef("no change: both price books have the same rates and terms in every hour\n")
	}
	return s.Print(changeTable(changes, true))
}

// DiffPrices prints what changes from one price book to another.
func DiffPrices(s *cli.Session, oldPath, newPath string) error {
	before, err := loadBook(oldPath)
	if err != nil {
		return err
	}
	after, err := loadBook(newPath)
	if err != nil {
		return err
	}
	changes := prices.Diff(before, after, s.Clock.Now().UTC())
	if len(changes) == 0 && s.Format == cli.AsTable {
		return s.Writef("no change: both price books have the same rates and terms in every hour\n")
	}
	return s.Print(changeTable(changes, s.Format == cli.AsTable))
}

// PublishPrices puts the price book of a file in force.
func PublishPrices(ctx context.Context, s *cli.Session, path string) error {
	if err := settings.Trusted(path); err != nil {
		return err
	}
	book, err := loadBook(path)
	if err != nil {
		return err
	}
	book.Name = filepath.Base(book.Name)
	return app.WithRegister(ctx, s, func(p *app.Pipeline) error {
		return loadPrices(ctx, s, p, book)
	})
}
