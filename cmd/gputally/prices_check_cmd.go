package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/billing/prices"
)

func (s *session) pricesCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a price book and print what it says",
		Long: "Prints each version with its rates and terms, and what may be written so but is hardly meant: a profile dearer\n" +
			"than its part of the GPU, a tier dearer than the one before, a model or a minimum that a later version leaves out …\n" +
			"Every mistake is named with file, line, key and value; exit code 2 when there is one. JSON is the book in its\n" +
			"normal form, with the SHA-256 of the file that invoices name.",
		Example: examples(
			"gputally prices check prices.yaml", "before it is used",
			"gputally prices check prices.yaml --output json", "the normal form, to compare or keep",
		),
		Args: argumentsOfUse,
	}
	o := outputFlag(cmd)
	cmd.RunE = s.run(func(_ context.Context, args []string) error {
		book, err := loadBook(args[0])
		if err != nil {
			return err
		}
		now := s.clock.Now().UTC()
		warnings := book.Warnings(now)
		switch *o {
		case outputJSON:
			return s.printDocument(checkedBook{book.Document(), warningTexts(warnings)})
		case outputCSV:
			for _, warning := range warnings {
				s.sayf("warning: %s\n", printable(warning.String()))
			}
			return factTable(book).write(s.stdout, *o, false)
		}
		return s.printBook(book, warnings, now)
	})
	return cmd
}

// checkedBook is JSON's answer.
type checkedBook struct {
	prices.Document
	Warnings []string `json:"warnings"`
}

func warningTexts(warnings []prices.Warning) []string {
	texts := make([]string, len(warnings))
	for i, warning := range warnings {
		texts[i] = warning.String()
	}
	return texts
}

// factTable has a row for everything that the book says, for scripts.
func factTable(book *prices.Book) table {
	t := table{columns: textColumns([]string{"effective", "until", "kind", "name", "item", "value"})}
	add := func(from, until time.Time, facts []prices.Fact) {
		for _, fact := range facts {
			t.rows = append(t.rows, []string{rfc3339(from), rfc3339(until), fact.Kind, fact.Name, fact.Item, fact.Value})
		}
	}
	add(time.Time{}, time.Time{}, book.General())
	for i := range book.Versions {
		add(book.Versions[i].Effective, book.Until(i), book.Versions[i].Facts())
	}
	return t
}

func (s *session) printBook(book *prices.Book, warnings []prices.Warning, now time.Time) error {
	heading := fmt.Sprintf("%s: ok\nCurrency   %s, totals rounded to %d places\nTime zone  %s\n",
		printable(book.Name), book.Currency, book.MinorUnit, zonesOf(book))
	if len(book.SKUs) > 0 {
		heading += "SKUs       " + skusOf(book) + "\n"
	}
	if err := s.writef("%sSHA-256    %s\n", heading, book.Hash); err != nil {
		return err
	}
	inForce := book.At(now)
	for i := range book.Versions {
		title := inForceSpan(book.Versions[i].Effective, book.Until(i))
		if i == inForce {
			title += ", in force now"
		}
		if err := s.writef("\n%s\n", bold(title, colour(s.stdout))); err != nil {
			return err
		}
		if err := versionTable(&book.Versions[i], book).write(s.stdout, outputTable, colour(s.stdout)); err != nil {
			return err
		}
	}
	if len(warnings) == 0 {
		return nil
	}
	if err := s.writef("\n%s\n", bold("Warnings", colour(s.stdout))); err != nil {
		return err
	}
	for _, warning := range warnings {
		if err := s.writef("  %s\n", printable(warning.String())); err != nil {
			return err
		}
	}
	return nil
}

func zonesOf(book *prices.Book) string {
	list := []string{book.Zone.String()}
	for _, tenant := range slices.Sorted(maps.Keys(book.TenantZones)) {
		list = append(list, tenant+" "+book.TenantZones[tenant].String())
	}
	return printable(strings.Join(list, ", "))
}

func skusOf(book *prices.Book) string {
	list := make([]string, 0, len(book.SKUs))
	for _, sku := range book.SKUs {
		what := sku.Profile
		if what == "" {
			what = "whole GPUs: " + strconv.Itoa(sku.GPUs)
		}
		list = append(list, sku.Name+" = "+what)
	}
	return printable(strings.Join(list, ", "))
}

// inForceSpan is the hours of a version, in words.
func inForceSpan(from, until time.Time) string {
	text := "From " + rfc3339(from)
	if until.IsZero() {
		return text + " on"
	}
	return text + " until " + rfc3339(until)
}

// versionTable is a version for reading; a name stands once.
func versionTable(version *prices.Version, book *prices.Book) table {
	t := table{columns: []column{{name: "of"}, {name: "what", wide: true}, {name: "value", number: true}, {name: "unit"}}}
	last := ""
	for _, fact := range version.Facts() {
		place := factPlace(fact.Key)
		if place == last {
			place = ""
		} else {
			last = place
		}
		what, unit := inWords(fact.Key, book.Currency)
		value := fact.Value
		if strings.HasPrefix(unit, book.Currency) {
			value = price(value, book.MinorUnit)
		}
		t.rows = append(t.rows, []string{place, what, value, unit})
	}
	return t
}

// price is exact, with at least the currency's places.
func price(value string, places int32) string {
	d := amount(value)
	return grouped(d.StringFixed(max(places, -d.Exponent())))
}

// inWords is a fact's item as people read it, and the unit of its value.
func inWords(k prices.Key, currency string) (what, unit string) {
	if profile, ok := strings.CutPrefix(k.Item, "profiles."); ok {
		return "an hour of " + profile, currency
	}
	if above, ok := strings.CutPrefix(k.Item, "tiers.above "); ok {
		return "a GPU-hour above " + grouped(above) + " a month", currency
	}
	if reserved, ok := strings.CutPrefix(k.Item, "reserved."); ok {
		if model, gpus := strings.CutSuffix(reserved, ".gpus"); gpus {
			return "reserved " + model, "GPUs"
		}
		return "an unused hour of it", currency
	}
	words := map[string][2]string{
		"kwh":            {"a kWh", currency},
		"idle_surcharge": {"surcharge on idle time", "of its list value"},
		"distribution":   {"free and stranded time is shared", ""},
		"gpu_hour":       {"a GPU-hour", currency},
		"discount":       {"discount", "of list, profile and tier"},
		"fixed_discount": {"fixed discount", currency + " a month"},
		"minimum":        {"minimum", currency + " a month"},
	}
	if known, ok := words[k.Item]; ok {
		return known[0], known[1]
	}
	return strings.ReplaceAll(k.Item, "_", " "), ""
}
