package focuscheck

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/bounded"
)

// Violation is a rule broken.
type Violation struct {
	// Line is the line of the file, the header's is 1; 0: the file as a whole.
	Line   int
	Column string
	// Rule is a rule's ID.
	Rule string
	// Value is the cell, or what was compared, its first 200 bytes.
	Value string
}

// String is the violation for reading.
func (v Violation) String() string {
	return fmt.Sprintf("line %d: %s: %s %q", v.Line, v.Rule, v.Column, v.Value)
}

// maxViolations is where a check ends: a file wrong in each line has been
// understood by then.
const maxViolations = 10_000

// maxValue bounds what a violation repeats, in bytes.
const maxValue = 200

// Options say what to check against.
type Options struct {
	// Version of FOCUS: "1.2" or "1.4".
	Version string
	// Payable is what invoices come to, by InvoiceId; nil: not checked.
	Payable map[string]decimal.Decimal
}

// Check reads a file and returns what is wrong with it, at most 10,000
// violations, in the order of lines; what concerns invoices comes last. An
// error is an unknown version, a reader that fails or a file that isn't CSV.
func Check(r io.Reader, options Options) ([]Violation, error) {
	if options.Version != version12 && options.Version != version14 {
		return nil, fmt.Errorf("check FOCUS: version %q is neither %s nor %s", options.Version, version12, version14)
	}
	reader := bounded.NewCSV(r)
	reader.FieldsPerRecord, reader.ReuseRecord = -1, true
	header, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("check FOCUS: read header: %w", err)
	}
	c := newChecker(options, header)
	for len(c.violations) < maxViolations {
		cells, err := reader.Read()
		if errors.Is(err, io.EOF) {
			c.acrossInvoices()
			return c.violations, nil
		}
		if err != nil {
			return nil, fmt.Errorf("check FOCUS: %w", err)
		}
		line, _ := reader.FieldPos(0)
		c.line(line, cells)
	}
	return c.violations[:maxViolations], nil
}

// checker is one file.
type checker struct {
	options    Options
	width      int
	columns    []*column // by position; nil: not FOCUS's
	row        record
	rules      []*rule // of the version, for whose columns the file has
	cross      crossing
	violations []Violation
}

func newChecker(options Options, header []string) *checker {
	c := &checker{options: options, width: len(header), columns: make([]*column, len(header)), cross: newCrossing()}
	c.row = record{at: map[string]int{}}
	known := columnsOf(options.Version)
	custom := false
	for i, name := range header {
		_, twice := c.row.at[name]
		c.row.at[name] = i
		c.columns[i] = known[name]
		for _, rule := range headerRules {
			if rule.breaks(heading{name: name, known: known[name] != nil, twice: twice, custom: custom}) {
				c.report(1, name, rule.id, name)
				break
			}
		}
		custom = custom || isCustom(name)
	}
	for _, column := range columns {
		if _, there := c.row.at[column.name]; column.presence != "" && column.in(options.Version) && !there {
			c.report(1, column.name, column.presence, "")
		}
	}
	for i := range rules {
		if r := &rules[i]; (r.only == "" || r.only == options.Version) && len(r.terms) > 0 && c.row.has(r.needs...) {
			c.rules = append(c.rules, r)
		}
	}
	return c
}

func (c *checker) report(line int, column, rule, value string) {
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "…"
	}
	column = column[:min(len(column), maxValue)]
	c.violations = append(c.violations, Violation{Line: line, Column: column, Rule: rule, Value: strings.Clone(value)})
}

// line checks one record: its width, each cell, then rules across cells.
func (c *checker) line(line int, cells []string) {
	if len(cells) != c.width {
		c.report(line, "", ruleWidth, fmt.Sprintf("%d cells, the header has %d", len(cells), c.width))
		return
	}
	c.row.read(cells)
	for i, column := range c.columns {
		if column == nil {
			continue
		}
		if rule := column.check(cells[i]); rule != "" {
			c.row.bad[i] = true
			c.report(line, column.name, rule, cells[i])
		}
	}
	for _, r := range c.rules {
		switch {
		case !c.row.sound(r.needs...):
		case r.acrossLines():
			c.single(line, r)
		case r.breaks(&c.row):
			c.report(line, r.Column, r.ID, c.row.text(r.Column))
		}
	}
	c.bill()
}
