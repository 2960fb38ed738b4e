package rating

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
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
	line factLine
	err  error
}

func newCopyWriter(to io.Writer) *copyWriter {
	w := &copyWriter{hash: sha256.New(), to: to}
	w.add(w.line.begin(factCopy).number(copyFormat))
	return w
}

// add writes a fact; the first error is kept for sum.
func (w *copyWriter) add(line *factLine) {
	text := line.end()
	_, _ = w.hash.Write(text) // a hash never fails
	if w.to != nil && w.err == nil {
		_, w.err = w.to.Write(text)
	}
}

func (w *copyWriter) usage(row Row) {
	w.add(w.line.begin(factUsage).at(row.Hour).name(row.Project).name(row.Model).name(row.Profile).
		number(int64(row.ProfileSlices)).number(int64(row.Slices)).name(row.Bucket).number(row.SliceMS).number(row.EnergyMJ))
}

func (w *copyWriter) distribution(hour time.Time, amount decimal.Decimal) {
	w.add(w.line.begin(factDistribution).at(hour).amount(amount))
}

func (w *copyWriter) supplied(hour time.Time, model string) {
	w.add(w.line.begin(factSupplied).at(hour).name(model))
}

// decided writes a fact that is none of usage.
func (w *copyWriter) decided(fact Fact) {
	if fact.Supplied != "" {
		w.supplied(fact.Hour, fact.Supplied)
	} else {
		w.distribution(fact.Hour, fact.Distribution)
	}
}

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
	number, cells := 0, newFactReader()
	for lines.Scan() {
		number++
		fact, err := parseFact(tenant, cells, lines.Bytes(), number == 1)
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

func parseFact(tenant string, c *factReader, line []byte, first bool) (Fact, error) {
	if err := c.read(line); err != nil {
		return Fact{}, err
	}
	kind := c.name("kind")
	if first {
		if format := c.number("format"); c.err == nil && (kind != factCopy || format != copyFormat) {
			return Fact{}, fmt.Errorf("want [%q,%d], got [%q,%d]", factCopy, copyFormat, kind, format)
		}
		return Fact{}, c.end()
	}
	fact := Fact{Hour: c.at()}
	switch kind {
	case factUsage:
		fact.Usage = true
		fact.Row = Row{
			Hour: fact.Hour, Tenant: tenant, Project: c.name("project"), Model: c.name("model"), Profile: c.name("profile"),
			ProfileSlices: int(c.number("profile_slices")), Slices: int(c.number("slices")), Bucket: c.name("bucket"),
			SliceMS: c.number("slice_ms"), EnergyMJ: c.number("energy_mj"),
		}
	case factDistribution:
		fact.Distribution = c.amount("amount")
	case factSupplied:
		fact.Supplied = c.name("model")
	default:
		return Fact{}, fmt.Errorf("kind %q is neither %s, %s nor %s", kind, factUsage, factDistribution, factSupplied)
	}
	return fact, c.end()
}
