package focuscheck

import (
	"regexp"
	"slices"
	"strings"
)

// Rule is one requirement. Source says where it stands: rules of FOCUS 1.2 by
// their ids in its requirements model, others by what they follow from.
type Rule struct{ ID, Column, Text, Source string }

// Where rules stand.
const (
	sourceModel = "FOCUS 1.2, requirements model"
	source14    = "FOCUS 1.4"
	sourceCSV   = "RFC 4180"
)

// ruleWidth is of a line of more or fewer cells than the header.
var ruleWidth = Rule{"csv-width", "", "Each line should contain the same number of fields.", sourceCSV}

// heading is a column's name as a file has it.
type heading struct {
	name                 string
	known, twice, custom bool // FOCUS's; seen before; after a custom column
}

// customName is what a custom column's name looks like: PascalCase after x_.
var customName = regexp.MustCompile(`^x_[A-Z][A-Za-z0-9]*$`)

func isCustom(name string) bool { return strings.HasPrefix(name, "x_") }

// maxName is the longest name of a column that all stores take.
const maxName = 50

var headerRules = []struct {
	Rule
	breaks func(heading) bool
}{
	{
		Rule{"csv-column-twice", "", "Each column has a name of its own.", sourceCSV},
		func(h heading) bool { return h.twice },
	},
	{
		Rule{"ColumnHandling-A-010-M", "", "Custom columns MUST be prefixed with a consistent x_ prefix.", sourceModel},
		func(h heading) bool { return !h.known && !isCustom(h.name) },
	},
	{
		Rule{"ColumnHandling-A-005-O", "", "Column IDs SHOULD NOT exceed 50 characters.", sourceModel},
		func(h heading) bool { return len(h.name) > maxName },
	},
	{
		Rule{
			"ColumnHandling-A-011-O", "",
			"Custom columns SHOULD follow the rules of FOCUS columns: Pascal case, alphanumeric.", sourceModel,
		},
		func(h heading) bool { return isCustom(h.name) && !customName.MatchString(h.name) },
	},
	{
		Rule{"ColumnHandling-A-013-O", "", "Custom columns SHOULD be listed after all FOCUS columns.", sourceModel},
		func(h heading) bool { return h.known && h.custom },
	},
}

// rules are those of the table: of formats, which cells.go holds; of one line's
// cells, broken where all of their terms hold; and of several lines, which
// lines.go holds. The format of values (KeyValueFormat-A-003-M) and of times
// (DateTimeFormat-A-001-M to -A-003-M) has no rule of its own in the table: the
// rules of its parts say the same.
var rules = func() (all []rule) {
	for _, r := range records(rulesTSV) {
		one := rule{Rule: Rule{r[0], r[2], r[4], sourceModel}, only: r[1]}
		if one.only == version14 {
			one.Source = source14
		}
		if one.Column != "" {
			one.needs = []string{one.Column}
		}
		for text := range strings.SplitSeq(r[3], "; ") {
			words := strings.SplitN(text+" ", " ", 3)
			if text == "" {
				continue
			}
			t := term{column: words[0], is: words[1], of: list(strings.TrimSpace(words[2]))}
			one.terms = append(one.terms, t)
			one.needs = append(one.needs, t.column)
			if vocabulary[t.is].columns {
				one.needs = append(one.needs, t.of...)
			}
		}
		all = append(all, one)
	}
	return all
}()

// rule is one of the table.
type rule struct {
	Rule
	only  string // the one version it is of; empty: both
	terms []term
	needs []string // columns that the file must have, with sound cells
}

// acrossLines tells whether it takes more than one line to break the rule.
func (r *rule) acrossLines() bool { return len(r.terms) > 0 && r.terms[0].is == hasAnother }

func (r *rule) breaks(line *record) bool {
	return !slices.ContainsFunc(r.terms, func(t term) bool { return !vocabulary[t.is].holds(line, t) })
}

// rules are those that a column has by itself.
func (c *column) rules() (all []Rule) {
	source := sourceModel
	if c.only == version14 {
		source = source14
	}
	for _, r := range []Rule{
		{c.presence, c.name, c.name + " MUST be present.", source},
		{c.notNull, c.name, c.name + " MUST NOT be null.", source},
		{c.typed, c.name, c.name + " MUST be of its type.", source},
		{c.allowed, c.name, c.name + " MUST be one of the allowed values.", source},
	} {
		if r.ID != "" {
			all = append(all, r)
		}
	}
	return all
}

// Rules are all that a version's files are checked against.
func Rules(version string) []Rule {
	all := []Rule{ruleWidth}
	for _, r := range headerRules {
		all = append(all, r.Rule)
	}
	for _, c := range columns {
		if c.in(version) {
			all = append(all, c.rules()...)
		}
	}
	for _, r := range rules {
		if r.only == "" || r.only == version {
			all = append(all, r.Rule)
		}
	}
	return all
}
