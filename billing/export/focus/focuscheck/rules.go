package focuscheck

import (
	"regexp"
	"slices"
	"strings"
)

// Rule is one requirement, by its id in FOCUS 1.2's requirements model, or by an id with 1.4 in it where only FOCUS 1.4
// has it.
// Ids that begin with csv- are of RFC 4180.
type Rule struct{ ID, Column, Text string }

// ruleWidth is of a line of more or fewer cells than the header.
const ruleWidth = "csv-width"

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

// headerRules are those of the columns' names.
var headerRules = []struct {
	id     string
	breaks func(heading) bool
}{
	{"csv-column-twice", func(h heading) bool { return h.twice }},
	{"ColumnHandling-A-010-M", func(h heading) bool { return !h.known && !isCustom(h.name) }},
	{"ColumnHandling-A-005-O", func(h heading) bool { return len(h.name) > maxName }},
	{"ColumnHandling-A-011-O", func(h heading) bool { return isCustom(h.name) && !customName.MatchString(h.name) }},
	{"ColumnHandling-A-013-O", func(h heading) bool { return h.known && h.custom }},
}

// rules are those of the table: of the header, which headerRules holds; of
// formats, which cells.go holds; of one line's cells, broken where all of their terms hold; and of several lines, which
// lines.go holds. The format of values (KeyValueFormat-A-003-M) and of times
// (DateTimeFormat-A-001-M to -A-003-M) has no rule of its own in the table: the
// rules of its parts say the same.
var rules = func() (all []rule) {
	for _, r := range records(rulesTSV) {
		one := rule{Rule: Rule{r[0], r[2], r[4]}, only: r[1]}
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

// acrossLines returns whether a violation of the rule involves more than one line.
func (r *rule) acrossLines() bool { return len(r.terms) > 0 && r.terms[0].is == hasAnother }

func (r *rule) breaks(line *record) bool {
	return !slices.ContainsFunc(r.terms, func(t term) bool { return !vocabulary[t.is].holds(line, t) })
}

// rules are those that a column has by itself.
func (c *column) rules() (all []Rule) {
	for _, r := range []Rule{
		{c.presence, c.name, c.name + " MUST be present."},
		{c.notNull, c.name, c.name + " MUST NOT be null."},
		{c.typed, c.name, c.name + " MUST be of its type."},
		{c.allowed, c.name, c.name + " MUST be one of the allowed values."},
	} {
		if r.ID != "" {
			all = append(all, r)
		}
	}
	return all
}

// Rules are all that a version's files are checked against.
func Rules(version string) (all []Rule) {
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
