package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/prices"
)

func (s *session) pricesDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what changes between two price books, and from which hour on",
		Long: "Compares what is in force hour by hour: a version that was only cut in two is no change, and a change of a\n" +
			"version lasts until both books say the same again. Changes of hours that are over are marked past: they would\n" +
			"price what was used already, and touch drafts of months not yet finalised.",
		Example: examples(
			"gputally prices diff prices.yaml next.yaml", "what a new book would change",
			"gputally prices diff prices.yaml next.yaml --output json", "for a review by script",
		),
		Args: argumentsOfUse,
	}
	o := outputFlag(cmd)
	cmd.RunE = s.run(func(_ context.Context, args []string) error {
		before, err := loadBook(args[0])
		if err != nil {
			return err
		}
		after, err := loadBook(args[1])
		if err != nil {
			return err
		}
		changes := prices.Diff(before, after, s.clock.Now().UTC())
		if len(changes) == 0 && *o == outputTable {
			return s.writef("no change: both price every hour alike\n")
		}
		return changeTable(changes, *o == outputTable).write(s.stdout, *o, colour(s.stdout))
	})
	return cmd
}

// changeTable has a row per change. Values are text: one may be a zone.
func changeTable(changes []prices.Change, forReading bool) table {
	t := table{columns: []column{
		{name: "from"},
		{name: "until"},
		{name: "change"},
		{name: "kind"},
		{name: "name"},
		{name: "item", wide: true},
		{name: "old"},
		{name: "new"},
		{name: "percent", number: true},
		{name: "past"},
	}}
	for _, c := range changes {
		from, until, past := rfc3339(c.From), rfc3339(c.Until), ""
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
		t.rows = append(t.rows, []string{
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
