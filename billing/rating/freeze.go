package rating

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// factFreeze heads the text of a Freeze, in which each line is a JSON array:
//
//	["freeze",1]
//	["distribution","HOUR","TENANT","AMOUNT"]   the platform, an empty tenant, gives: a negative amount
//	["supplied","HOUR","MODEL"]
const (
	factFreeze   = "freeze"
	freezeFormat = 1
)

// Freeze writes down what closed hours' usage decides once and for all (R17).
type Freeze struct {
	book  *prices.Book
	text  bytes.Buffer
	line  factLine
	hours []freezeHour
}

// freezeHour is where an hour's lines begin.
type freezeHour struct {
	hour  time.Time
	begin int
}

// NewFreeze decides by a price book.
func NewFreeze(book *prices.Book) *Freeze {
	f := &Freeze{book: book}
	f.add(f.line.begin(factFreeze).number(freezeFormat))
	return f
}

// AddHour decides a UTC hour from all its rows. Hours before the book's first
// version decide nothing. Errors: MissingModelError, or rows that make no sense.
func (f *Freeze) AddHour(hour time.Time, rows []Row) error {
	at := f.book.At(hour)
	if at < 0 {
		return nil
	}
	merged, err := merge(rows)
	if err != nil {
		return err
	}
	f.hours = append(f.hours, freezeHour{hour, f.text.Len()})
	version := &f.book.Versions[at]
	values := make([]priced, 0, len(merged))
	for _, row := range merged {
		value, known, err := priceRow(version, row)
		if err != nil {
			return err
		}
		if !known {
			return &MissingModelError{row.Model, hour.UTC(), version.Effective, f.book.Name}
		}
		values = append(values, value)
	}
	if shares, platform := shareOut(version, values); len(shares) > 0 {
		f.add(f.line.begin(factDistribution).at(hour).name("").amount(platform))
		for _, s := range shares {
			f.add(f.line.begin(factDistribution).at(hour).name(s.Tenant).amount(s.Amount))
		}
	}
	for _, model := range reservedModels(version) {
		if suppliedModel(version, model, values, false) {
			f.add(f.line.begin(factSupplied).at(hour).name(model))
		}
	}
	return nil
}

// Text is what was decided of the UTC hours [from, to); the same usage and book
// give the same bytes.
func (f *Freeze) Text(from, to time.Time) []byte {
	begin := func(at time.Time) int {
		for _, h := range f.hours {
			if !h.hour.Before(at) {
				return h.begin
			}
		}
		return f.text.Len()
	}
	head := f.text.Len()
	if len(f.hours) > 0 {
		head = f.hours[0].begin
	}
	return slices.Concat(f.text.Bytes()[:head], f.text.Bytes()[begin(from):begin(to)])
}

func (f *Freeze) add(line *factLine) { _, _ = f.text.Write(line.end()) } // memory takes all

// reservedModels are those that somebody has a reservation of, sorted.
func reservedModels(version *prices.Version) []string {
	models := map[string]bool{}
	for _, terms := range version.Tenants {
		for _, r := range terms.Reserved {
			models[r.Model] = true
		}
	}
	return slices.Sorted(maps.Keys(models))
}

// AddFreeze adds the text of a Freeze of the UTC hours [from, to). Errors name
// the line.
func (f *Frozen) AddFreeze(from, to time.Time, text []byte) error {
	cells := newFactReader()
	for number, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		if err := f.addFreezeLine(cells, line, number == 0); err != nil {
			return fmt.Errorf("read freeze of %s: line %d: %w", from.UTC().Format(time.RFC3339), number+1, err)
		}
	}
	f.Cover(from, to)
	return nil
}

func (f *Frozen) addFreezeLine(c *factReader, line []byte, first bool) error {
	if err := c.read(line); err != nil {
		return err
	}
	kind := c.name("kind")
	if first {
		if format := c.number("format"); c.err == nil && (kind != factFreeze || format != freezeFormat) {
			return fmt.Errorf("want [%q,%d], got [%q,%d]", factFreeze, freezeFormat, kind, format)
		}
		return c.end()
	}
	hour := c.at()
	var tenant, model string
	var amount decimal.Decimal
	switch kind {
	case factDistribution:
		tenant, amount = c.name("tenant"), c.amount("amount")
	case factSupplied:
		model = c.name("model")
	default:
		return fmt.Errorf("kind %q is neither %s nor %s", kind, factDistribution, factSupplied)
	}
	if err := c.end(); err != nil {
		return err
	}
	if kind == factSupplied {
		f.Supply(hour, model)
	} else {
		f.Give(hour, tenant, amount)
	}
	return nil
}
