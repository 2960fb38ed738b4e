package focuscheck

import (
	_ "embed"
	"encoding/csv"
	"strings"
)

// The specification as tables of tab-separated values, each with a head.
var (
	//go:embed columns.tsv
	columnsTSV string
	//go:embed rules.tsv
	rulesTSV string
	//go:embed services.tsv
	servicesTSV string
	//go:embed properties.tsv
	propertiesTSV string
)

// records are a table's, without its head.
func records(table string) [][]string {
	reader := csv.NewReader(strings.NewReader(table))
	reader.Comma, reader.LazyQuotes = '\t', true
	all, err := reader.ReadAll()
	if err != nil {
		panic(err) // the tables are part of the program, and tested
	}
	return all[1:]
}

// list are the values of a cell of several.
func list(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return r == '|' })
}

// The versions of FOCUS that are known.
const (
	version12 = "1.2"
	version14 = "1.4"
)

// The kinds of cells; any other column has text.
const (
	number  = "number"
	instant = "instant"
	object  = "object"
)

// column is one that FOCUS defines, with the ids of the rules that its cells,
// or its absence, break.
type column struct {
	name string
	kind string
	only string // the one version that has it; empty: both
	// presence is where a file must have it, conditional ones included whose
	// condition holds for who publishes prices, has contracts, sub accounts of
	// several types, reservations and tags, and measures usage.
	presence string
	typed    string // not a number, or not an instant
	notNull  string
	allowed  string // none of the values
	anyName  bool   // people name it: "none" may be its name
	values   []string
}

func (c *column) in(version string) bool { return c.only == "" || c.only == version }

// columns are those of 1.2, and of 1.4 what is known to be new.
var columns = func() (all []column) {
	for _, r := range records(columnsTSV) {
		c := column{
			name: r[0], kind: r[1], only: r[2], presence: r[3], typed: r[4], notNull: r[5], allowed: r[6], anyName: r[7] != "",
			values: list(r[8]),
		}
		switch c.name {
		case "ServiceCategory":
			for category := range subcategories {
				c.values = append(c.values, category)
			}
		case "ServiceSubcategory":
			for _, below := range subcategories {
				c.values = append(c.values, below...)
			}
		}
		all = append(all, c)
	}
	return all
}()

// columnsOf are a version's columns by name.
func columnsOf(version string) map[string]*column {
	known := map[string]*column{}
	for i := range columns {
		if columns[i].in(version) {
			known[columns[i].name] = &columns[i]
		}
	}
	return known
}

// subcategories are those of each service category; each has an "Other".
var subcategories = func() map[string][]string {
	all := map[string][]string{}
	for _, r := range records(servicesTSV) {
		all[r[0]] = append(list(r[1]), "Other ("+r[0]+")")
	}
	return all
}()

// skuProperties are the types of the FOCUS-defined keys of SkuPriceDetails.
var skuProperties = func() map[string]string {
	all := map[string]string{}
	for _, r := range records(propertiesTSV) {
		all[r[0]] = r[1]
	}
	return all
}()
