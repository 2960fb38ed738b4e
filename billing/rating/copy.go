package rating

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/shopspring/decimal"
)

// The usage copy is the text that an invoice's usage hash is of: a first line
// ["copy",1], then one JSON array per fact, in the order in which hours were
// rated:
//
//	["usage","HOUR","PROJECT","MODEL","PROFILE",PROFILE_SLICES,SLICES,"BUCKET",SLICE_MS,ENERGY_MJ]
//	["distribution","HOUR","AMOUNT"]
//	["supplied","HOUR","MODEL"]
//
// Rated again with nothing else but the price book it gives the same invoice.
const (
	factCopy         = "copy"
	factUsage        = "usage"
	factDistribution = "distribution"
	factSupplied     = "supplied"
)

// copyFormat is the text's version.
const copyFormat = 1

// copyWriter hashes the facts, and writes them where they are wanted.
type copyWriter struct {
	hash hash.Hash
	to   io.Writer // nil: the hash is all that is wanted
	line bytes.Buffer
	err  error
}

func newCopyWriter(to io.Writer) *copyWriter {
	w := &copyWriter{hash: sha256.New(), to: to}
	w.add(factCopy, copyFormat)
	return w
}

// add writes a fact; the first error is kept for sum.
func (w *copyWriter) add(fact ...any) {
	w.line.Reset()
	encoder := json.NewEncoder(&w.line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fact); err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	_, _ = w.hash.Write(w.line.Bytes()) // a hash never fails
	if w.to != nil && w.err == nil {
		_, w.err = w.to.Write(w.line.Bytes())
	}
}

func (w *copyWriter) usage(row Row) {
	w.add(factUsage, stamp(row.Hour), row.Project, row.Model, row.Profile, row.ProfileSlices, row.Slices, row.Bucket, row.SliceMS, row.EnergyMJ)
}

func (w *copyWriter) distribution(hour time.Time, amount decimal.Decimal) {
	w.add(factDistribution, stamp(hour), amount.String())
}

func (w *copyWriter) supplied(hour time.Time, model string) { w.add(factSupplied, stamp(hour), model) }

// decided writes a fact that is none of usage.
func (w *copyWriter) decided(fact Fact) {
	if fact.Supplied != "" {
		w.supplied(fact.Hour, fact.Supplied)
	} else {
		w.distribution(fact.Hour, fact.Distribution)
	}
}

func stamp(hour time.Time) string { return hour.UTC().Format(time.RFC3339) }

func (w *copyWriter) sum() (string, error) {
	if w.err != nil {
		return "", fmt.Errorf("write usage copy: %w", w.err)
	}
	return hex.EncodeToString(w.hash.Sum(nil)), nil
}

// Fact is one line of a usage copy: usage in Row, or what was decided of an
// hour when it was frozen.
type Fact struct {
	// Row is the usage; its SliceMS and EnergyMJ may both be zero only where the
	// line is none of usage.
	Row Row
	// Usage tells a line of usage from the others.
	Usage bool
	Hour  time.Time
	// Distribution is the tenant's part of the hour's platform time.
	Distribution decimal.Decimal
	// Supplied is the model whose reservations could be supplied; empty: none is told of.
	Supplied string
}

// maxCopyLine bounds a line: names are at most some kilobytes.
const maxCopyLine = 1 << 20

// ReadCopy reads a tenant's usage copy. Errors name the line.
func ReadCopy(tenant string, from io.Reader, visit func(Fact) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxCopyLine)
	number := 0
	for lines.Scan() {
		number++
		fact, err := parseFact(tenant, lines.Bytes(), number == 1)
		if err == nil && number > 1 {
			err = visit(fact)
		}
		if err != nil {
			return fmt.Errorf("read usage copy of tenant %q: line %d: %w", tenant, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read usage copy of tenant %q: line %d: %w", tenant, number+1, err)
	}
	if number == 0 {
		return fmt.Errorf("read usage copy of tenant %q: it is empty", tenant)
	}
	return nil
}

func parseFact(tenant string, line []byte, first bool) (Fact, error) {
	var cells []json.RawMessage
	if err := json.Unmarshal(line, &cells); err != nil {
		return Fact{}, fmt.Errorf("not a JSON array: %w", err)
	}
	c := cellReader{cells: cells}
	kind := c.text("kind")
	if first {
		if format := c.number("format"); c.err == nil && (kind != factCopy || format != copyFormat) {
			return Fact{}, fmt.Errorf("want [%q,%d], got [%q,%d]", factCopy, copyFormat, kind, format)
		}
		return Fact{}, c.end()
	}
	fact := Fact{Hour: c.hour()}
	switch kind {
	case factUsage:
		fact.Usage = true
		fact.Row = Row{
			Hour: fact.Hour, Tenant: tenant, Project: c.text("project"), Model: c.text("model"), Profile: c.text("profile"),
			ProfileSlices: int(c.number("profile_slices")), Slices: int(c.number("slices")), Bucket: c.text("bucket"),
			SliceMS: c.number("slice_ms"), EnergyMJ: c.number("energy_mj"),
		}
	case factDistribution:
		fact.Distribution = c.amount("amount")
	case factSupplied:
		fact.Supplied = c.text("model")
	default:
		return Fact{}, fmt.Errorf("kind %q is neither %s, %s nor %s", kind, factUsage, factDistribution, factSupplied)
	}
	return fact, c.end()
}

// cellReader reads the cells of a fact in order; the first error is kept.
type cellReader struct {
	cells []json.RawMessage
	err   error
}

func (c *cellReader) next(name string, to any) {
	if c.err != nil {
		return
	}
	if len(c.cells) == 0 {
		c.err = fmt.Errorf("%s is missing", name)
		return
	}
	if err := json.Unmarshal(c.cells[0], to); err != nil {
		c.err = fmt.Errorf("%s %s: %w", name, c.cells[0], err)
	}
	c.cells = c.cells[1:]
}

func (c *cellReader) text(name string) (s string) {
	c.next(name, &s)
	return s
}

func (c *cellReader) number(name string) (n int64) {
	c.next(name, &n)
	return n
}

func (c *cellReader) hour() time.Time {
	text := c.text("hour")
	at, err := time.Parse(time.RFC3339, text)
	if c.err == nil && (err != nil || !at.Equal(at.Truncate(time.Hour))) {
		c.err = fmt.Errorf("hour %q is not the start of a UTC hour", text)
	}
	return at.UTC()
}

func (c *cellReader) amount(name string) decimal.Decimal {
	text := c.text(name)
	amount, err := decimal.NewFromString(text)
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("%s %q is not a decimal", name, text)
	}
	return amount
}

func (c *cellReader) end() error {
	if c.err == nil && len(c.cells) > 0 {
		return fmt.Errorf("%d cells too many", len(c.cells))
	}
	return c.err
}
