package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/prices"
)

func (s *session) pricesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "prices",
		Short:   "Check, compare, derive, try out and publish price books",
		Args:    cobra.NoArgs,
		Example: examples("gputally prices check prices.yaml", "what a price book says, and what looks wrong in it"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(s.pricesCheckCommand(), s.pricesDiffCommand(), s.pricesDeriveCommand(), s.pricesSimulateCommand(), s.pricesLoadCommand())
	return cmd
}

// loadBook reads a price book; a wrong one is a usage error, as a wrong
// configuration is.
func loadBook(path string) (*prices.Book, error) {
	book, err := prices.Load(path)
	if err != nil {
		return nil, usageError{err}
	}
	return book, nil
}

// factPlace is what a fact is of, for reading.
func factPlace(k prices.Key) string {
	switch k.Kind {
	case prices.KindBook:
		return "the book"
	case prices.KindVersion:
		return "everybody"
	}
	return k.Name
}

func rfc3339(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// writef prints a part of an answer.
func (s *session) writef(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.stdout, format, args...); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}
