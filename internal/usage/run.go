package usage

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gputally/gputally/internal/store"
)

// DB is what the package needs of the store.
type DB = store.Querier

// The kinds of usage: values of the column kind.
const (
	KindOwner        = "owner"
	KindPlatform     = "platform"
	KindUnattributed = "unattributed" // energy of no slot (R16)
)

// Row is usage of one combination of the query's columns.
type Row struct {
	// By are the values of Query.By, in its order. The tenant of platform usage is empty; that of energy in no slot
	// is "(unattributed)". Hours are RFC 3339, days 2006-01-02, months 2006-01, all UTC.
	By []string
	// Kind is KindOwner, KindPlatform or KindUnattributed if By has the tenant, since a tenant may have any name;
	// else empty.
	Kind string
	// Buckets are the seven buckets in slice-milliseconds: active, idle, unproven, free, stranded, unhealthy,
	// unobserved. A sum may exceed 64 bits.
	Buckets [7]*big.Int
	// GPUHours is Σ slice_ms ÷ (slices × 3,600,000) over all buckets, a decimal
	// of at most 9 places without trailing zeros.
	GPUHours string
	// EnergyMJ is the energy in millijoules.
	EnergyMJ *big.Int
}

// EnergyJoules is the energy in joules as a decimal with three places.
func (r Row) EnergyJoules() string {
	return new(big.Rat).SetFrac(r.EnergyMJ, big.NewInt(1000)).FloatString(3)
}

func newRow(by []string, kind string) *Row {
	r := &Row{By: by, Kind: kind, EnergyMJ: new(big.Int)}
	for i := range r.Buckets {
		r.Buckets[i] = new(big.Int)
	}
	return r
}

func (r *Row) sliceMS() *big.Int {
	sum := new(big.Int)
	for _, bucket := range r.Buckets {
		sum.Add(sum, bucket)
	}
	return sum
}

func (r *Row) zero() bool { return r.sliceMS().Sign() == 0 && r.EnergyMJ.Sign() == 0 }

// add adds usage on GPUs with another number of slices.
func (r *Row) add(part *Row) {
	for i, bucket := range part.Buckets {
		r.Buckets[i].Add(r.Buckets[i], bucket)
	}
	r.EnergyMJ.Add(r.EnergyMJ, part.EnergyMJ)
}

// TooManyRowsError means that a query has more rows than its limit.
type TooManyRowsError struct{ Limit int }

func (e *TooManyRowsError) Error() string {
	return fmt.Sprintf("query usage: more than %d rows; ask for a shorter range or fewer columns", e.Limit)
}

// Run reads the ledger. Rows are sorted by their By values in code-point order; rows of zeros are left out. Errors:
// an invalid query, a TooManyRowsError, the store's.
func Run(ctx context.Context, db DB, q Query) ([]Row, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	rows, err := q.read(ctx, db, nil)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Page reads at most q.Limit rows after the last row of an earlier page, in Run's order; after is nil for the first
// page. more: there are further rows. Rows added between two pages appear in order, or not at all if their page was
// already read; none appears twice.
func Page(ctx context.Context, db DB, q Query, after *Row) (rows []Row, more bool, err error) {
	if err := q.Validate(); err != nil {
		return nil, false, err
	}
	switch {
	case q.Limit == 0:
		return nil, false, errors.New("query usage: a page requires a positive limit")
	case after != nil && len(after.By) != len(q.By):
		return nil, false, fmt.Errorf("query usage: after a row of %d values, of %d columns", len(after.By), len(q.By))
	case after != nil && len(q.By) == 0:
		return nil, false, nil // there is only one row of totals
	}
	rows, err = q.read(ctx, db, after)
	var many *TooManyRowsError
	if errors.As(err, &many) {
		return rows, true, nil
	}
	return rows, false, err
}

// read returns the rows up to the limit; if there are more, with a TooManyRowsError.
func (q Query) read(ctx context.Context, db DB, after *Row) ([]Row, error) {
	sql, err := q.statement()
	if err != nil {
		return nil, fmt.Errorf("query usage: %w", err)
	}
	c := &collector{limit: q.Limit}
	if err := store.Each(ctx, db, "usage", sql, q.arguments(after), (*part).fields, c.add); err != nil {
		return c.done, err
	}
	err = c.flush()
	return c.done, err
}

// collector joins the parts of a row, which arrive one after the other, by their GPUs' slices.
type collector struct {
	limit int
	done  []Row
	open  *Row
	hours *big.Rat
}

// part is a row's usage on GPUs with the same number of slices.
type part struct {
	Row
	slices uint16
}

func (p *part) fields() []any {
	p.Row = *newRow(nil, "")
	fields := []any{&p.By, &p.Kind, &p.slices}
	for _, bucket := range p.Buckets {
		fields = append(fields, bucket)
	}
	return append(fields, p.EnergyMJ)
}

func (c *collector) add(part *part) error {
	if c.open == nil || c.open.Kind != part.Kind || !slices.Equal(c.open.By, part.By) {
		if err := c.flush(); err != nil {
			return err
		}
		c.open, c.hours = newRow(part.By, part.Kind), new(big.Rat)
	}
	c.open.add(&part.Row)
	if sliceMS := part.sliceMS(); sliceMS.Sign() > 0 {
		if part.slices == 0 {
			return fmt.Errorf("read usage: %d slice-ms of %q on a GPU of 0 slices", sliceMS, part.By)
		}
		hour := new(big.Int).Mul(big.NewInt(int64(part.slices)), big.NewInt(3_600_000))
		c.hours.Add(c.hours, new(big.Rat).SetFrac(sliceMS, hour))
	}
	return nil
}

func (c *collector) flush() error {
	if c.open == nil || c.open.zero() {
		return nil
	}
	if c.limit > 0 && len(c.done) == c.limit {
		return &TooManyRowsError{c.limit}
	}
	c.open.GPUHours = trim(c.hours.FloatString(9))
	c.done = append(c.done, *c.open)
	return nil
}

// trim removes the trailing zeros of a decimal with a point.
func trim(text string) string {
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
