package bill

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/internal/cli"
)

// checkedBook is the JSON output.
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

// factTable has a row for every fact of the book, for scripts.
func factTable(book *prices.Book) cli.Table {
	t := cli.Table{Columns: cli.Columns("effective", "until", "kind", "name", "item", "value")}
	add := func(from, until time.Time, facts []prices.Fact) {
		for _, fact := range facts {
			t.Rows = append(t.Rows, []string{cli.RFC3339(from), cli.RFC3339(until), fact.Kind, fact.Name, fact.Item, fact.Value})
		}
	}
	add(time.Time{}, time.Time{}, book.General())
	for i := range book.Versions {
		add(book.Versions[i].Effective, book.Until(i), book.Versions[i].Facts())
	}
	return t
}

func printBook(s *cli.Session, book *prices.Book, warnings []prices.Warning, now time.Time) error {
	heading := fmt.Sprintf("%s: ok\nCurrency   %s, totals rounded to %d places\nTime zone  %s\n",
		cli.Printable(book.Name), book.Currency, book.MinorUnit, zonesOf(book))
	if len(book.SKUs) > 0 {
		heading += "SKUs       " + skusOf(book) + "\n"
	}
	if err := s.Writef("%sSHA-256    %s\n", heading, book.Hash); err != nil {
		return err
	}
	inForce := book.At(now)
	for i := range book.Versions {
		title := inForceSpan(book.Versions[i].Effective, book.Until(i))
		if i == inForce {
			title += ", in force now"
		}
		if err := s.Heading(title, ""); err != nil {
			return err
		}
		if err := s.Print(versionTable(&book.Versions[i], book)); err != nil {
			return err
		}
	}
	if len(warnings) == 0 {
		return nil
	}
	if err := s.Heading("Warnings", ""); err != nil {
		return err
	}
	for _, warning := range warnings {
		if err := s.Writef("  %s\n", cli.Printable(warning.String())); err != nil {
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
	return cli.Printable(strings.Join(list, ", "))
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
	return cli.Printable(strings.Join(list, ", "))
}

// inForceSpan is the hours of a version, in words.
func inForceSpan(from, until time.Time) string {
	text := "From " + cli.RFC3339(from)
	if until.IsZero() {
		return text + " on"
	}
	return text + " until " + cli.RFC3339(until)
}

// versionTable is a version for reading; a repeated name is left out.
func versionTable(version *prices.Version, book *prices.Book) cli.Table {
	t := cli.Table{Columns: cli.Columns("of", "what wide", "value number", "unit")}
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
		t.Rows = append(t.Rows, []string{place, what, value, unit})
	}
	return t
}

// price is exact, with at least the currency's places.
func price(value string, places int32) string {
	d := cli.Amount(value)
	return cli.Grouped(d.StringFixed(max(places, -d.Exponent())))
}

// inWords is the description of a fact, and the unit of its value.
func inWords(k prices.Key, currency string) (what, unit string) {
	if profile, ok := strings.CutPrefix(k.Item, "profiles."); ok {
		return "an hour of " + profile, currency
	}
	if above, ok := strings.CutPrefix(k.Item, "tiers.above "); ok {
		return "a GPU-hour above " + cli.Grouped(above) + " a month", currency
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

// loadBook reads a price book; an invalid one is a usage error, like an invalid configuration.
func loadBook(path string) (*prices.Book, error) {
	book, err := prices.Load(path)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return book, nil
}

// factPlace is what a fact belongs to, for reading.
func factPlace(k prices.Key) string {
	switch k.Kind {
	case prices.KindBook:
		return "the book"
	case prices.KindVersion:
		return "everybody"
	}
	return k.Name
}

// CheckPrices prints the content of a price book.
func CheckPrices(s *cli.Session, path string) error {
	book, err := loadBook(path)
	if err != nil {
		return err
	}
	now := s.Clock.Now().UTC()
	warnings := book.Warnings(now)
	switch s.Format {
	case cli.AsJSON:
		return printDocument(s, checkedBook{Document: book.Document(), Warnings: warningTexts(warnings)})
	case cli.AsCSV:
		for _, warning := range warnings {
			s.Sayf("warning: %s\n", cli.Printable(warning.String()))
		}
		return s.Print(factTable(book))
	}
	return printBook(s, book, warnings, now)
}
