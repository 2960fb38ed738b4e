package rating

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Fact is one line of a usage copy or of a freeze: usage, or what was fixed for an hour when it was frozen.
type Fact struct {
	Hour time.Time
	// Usage is true for a line of usage, which is in Row.
	Usage bool
	Row   Row
	// Distribution is a part of the hour's platform time: in a copy the tenant's; in a freeze that of Tenant, and the
	// negative part of the platform, which gives it, if Tenant is empty.
	Tenant       string
	Distribution decimal.Decimal
	// Supplied is the model whose reservations could be supplied; empty: not a fact of this kind.
	Supplied string
}

// The kinds of facts.
const (
	factUsage        = "usage"
	factDistribution = "distribution"
	factSupplied     = "supplied"
)

func (f *Fact) kind() string {
	switch {
	case f.Usage:
		return factUsage
	case f.Supplied != "":
		return factSupplied
	}
	return factDistribution
}

// column is a cell of a fact after its kind and hour: a text, an integer or a decimal, according to the type that at
// points to.
type column struct {
	name string
	at   func(*Fact) any
}

// format is a text of facts: a first line ["copy",1], its name and version, then a JSON array per fact: its kind, its
// hour and its columns. Invoices follow from such texts, which are stored under their SHA-256, so their bytes must
// never change.
type format struct {
	name    string
	version int64
	kinds   []string // in the order of an error's text
	columns map[string][]column
}

var (
	usageColumns = []column{
		{"project", func(f *Fact) any { return &f.Row.Project }},
		{"model", func(f *Fact) any { return &f.Row.Model }},
		{"profile", func(f *Fact) any { return &f.Row.Profile }},
		{"profile_slices", func(f *Fact) any { return &f.Row.ProfileSlices }},
		{"slices", func(f *Fact) any { return &f.Row.Slices }},
		{"bucket", func(f *Fact) any { return &f.Row.Bucket }},
		{"slice_ms", func(f *Fact) any { return &f.Row.SliceMS }},
		{"energy_mj", func(f *Fact) any { return &f.Row.EnergyMJ }},
	}
	amountColumn   = column{"amount", func(f *Fact) any { return &f.Distribution }}
	suppliedColumn = column{"model", func(f *Fact) any { return &f.Supplied }}

	// copyFormat is the usage copy, whose hash is an invoice's usage hash, in the order in which hours were rated.
	// Rated again with the price book alone it gives the same invoice.
	copyFormat = format{"copy", 1, []string{factUsage, factDistribution, factSupplied}, map[string][]column{
		factUsage: usageColumns, factDistribution: {amountColumn}, factSupplied: {suppliedColumn},
	}}
	// freezeFormat is the content of a Freeze.
	freezeFormat = format{"freeze", 1, []string{factDistribution, factSupplied}, map[string][]column{
		factDistribution: {{"tenant", func(f *Fact) any { return &f.Tenant }}, amountColumn}, factSupplied: {suppliedColumn},
	}}
)

// head returns the first line.
func (f *format) head(line *factLine) []byte { return line.begin(f.name).cell(&f.version).end() }

// line returns a fact's line, valid until the next call.
func (f *format) line(line *factLine, fact *Fact) []byte {
	kind := fact.kind()
	line.begin(kind).cell(&fact.Hour)
	for _, c := range f.columns[kind] {
		line.cell(c.at(fact))
	}
	return line.end()
}

// parse reads a fact's line into a zero Fact.
func (f *format) parse(c *factReader, fact *Fact) error {
	var kind string
	if err := errors.Join(c.next("kind", &kind), c.next("hour", &fact.Hour)); err != nil {
		return err
	}
	columns, known := f.columns[kind]
	if !known {
		last := len(f.kinds) - 1
		return fmt.Errorf("kind %q is neither %s nor %s", kind, strings.Join(f.kinds[:last], ", "), f.kinds[last])
	}
	for _, column := range columns {
		if err := c.next(column.name, column.at(fact)); err != nil {
			return err
		}
	}
	if fact.Usage = kind == factUsage; fact.Usage {
		fact.Row.Hour = fact.Hour
	}
	return c.end()
}

func (f *format) parseHead(c *factReader) error {
	var name string
	var version int64
	if err := errors.Join(c.next("kind", &name), c.next("format", &version)); err != nil {
		return err
	}
	if name != f.name || version != f.version {
		return fmt.Errorf("want [%q,%d], got [%q,%d]", f.name, f.version, name, version)
	}
	return c.end()
}

// maxFactLine bounds a line: names have at most some kilobytes.
const maxFactLine = 1 << 20

// read calls visit for the facts of a text. Errors name the line.
func (f *format) read(from io.Reader, visit func(Fact) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFactLine)
	number, cells := 0, newFactReader()
	for lines.Scan() {
		number++
		var fact Fact
		err := cells.read(lines.Bytes())
		switch {
		case err != nil:
		case number == 1:
			err = f.parseHead(cells)
		default:
			if err = f.parse(cells, &fact); err == nil {
				err = visit(fact)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	if number == 0 {
		return errors.New("the text is empty")
	}
	return nil
}

// ReadCopy reads a tenant's usage copy. Errors name the line.
func ReadCopy(tenant string, from io.Reader, visit func(Fact) error) error {
	err := copyFormat.read(from, func(fact Fact) error {
		if fact.Usage {
			fact.Row.Tenant = tenant
		}
		return visit(fact)
	})
	if err != nil {
		return fmt.Errorf("read usage copy of tenant %q: %w", tenant, err)
	}
	return nil
}

// copyWriter hashes the facts, and optionally writes them.
type copyWriter struct {
	hash hash.Hash
	to   io.Writer // nil: only the hash is computed
	line factLine
	fact Fact // of the current call; a field, so that none is allocated
	err  error
}

func newCopyWriter(to io.Writer) *copyWriter {
	w := &copyWriter{hash: sha256.New(), to: to}
	w.write(copyFormat.head(&w.line))
	return w
}

// write writes a line; sum returns the first error.
func (w *copyWriter) write(line []byte) {
	_, _ = w.hash.Write(line) // a hash never fails
	if w.to != nil && w.err == nil {
		_, w.err = w.to.Write(line)
	}
}

func (w *copyWriter) add(fact Fact) {
	w.fact = fact
	w.write(copyFormat.line(&w.line, &w.fact))
}

func (w *copyWriter) usage(row Row) { w.add(Fact{Hour: row.Hour, Usage: true, Row: row}) }

func (w *copyWriter) sum() (string, error) {
	if w.err != nil {
		return "", fmt.Errorf("write usage copy: %w", w.err)
	}
	return hex.EncodeToString(w.hash.Sum(nil)), nil
}
