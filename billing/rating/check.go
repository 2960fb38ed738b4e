package rating

import (
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// Check checks C7a, C7c and C7e of a result; the error contains every violation.
func Check(result *Result) error {
	var errs []error
	for i := range result.Invoices {
		errs = append(errs, CheckLines(&result.Invoices[i]), CheckEffects(&result.Invoices[i], result.MinorUnit))
	}
	return errors.Join(append(errs, CheckDistribution(result))...)
}

// CheckLines checks C7a: the lines sum to the total, and per effect to the effect; a line with a unit is its quantity
// × its unit price.
func CheckLines(invoice *Invoice) error {
	sums := map[string]decimal.Decimal{}
	for _, line := range invoice.Lines {
		if line.Unit != "" && !line.Quantity.Mul(line.UnitPrice.Decimal).Equal(line.Amount.Decimal) {
			return fmt.Errorf("check C7a of tenant %q: line %s of %s: %s × %s is not %s",
				invoice.Tenant, line.Effect, line.Model, line.Quantity, line.UnitPrice, line.Amount)
		}
		sums[line.Effect] = sums[line.Effect].Add(line.Amount.Decimal)
	}
	total := decimal.Zero
	for _, effect := range invoice.Effects.Ordered() {
		if sum := sums[effect.Name]; !sum.Equal(effect.Amount) {
			return fmt.Errorf("check C7a of tenant %q: lines of %s sum to %s, the effect is %s",
				invoice.Tenant, effect.Name, sum, effect.Amount)
		}
		total = total.Add(sums[effect.Name])
	}
	if !total.Equal(invoice.Total.Decimal) {
		return fmt.Errorf("check C7a of tenant %q: lines sum to %s, the total is %s", invoice.Tenant, total, invoice.Total)
	}
	return nil
}

// CheckEffects checks C7c: the effects sum to the total, which has at most as many places as the currency.
func CheckEffects(invoice *Invoice, minorUnit int32) error {
	if sum := invoice.Effects.Sum(); !sum.Equal(invoice.Total.Decimal) {
		return fmt.Errorf("check C7c of tenant %q: effects sum to %s, the total is %s", invoice.Tenant, sum, invoice.Total)
	}
	if !invoice.Total.Decimal.Equal(invoice.Total.Truncate(minorUnit)) {
		return fmt.Errorf("check C7c of tenant %q: total %s has more than %d places", invoice.Tenant, invoice.Total,
			minorUnit)
	}
	return nil
}

// CheckDistribution checks C7e: distribution sums to zero in every hour, and |Σ rounding| is at most half a minor
// unit per invoice.
func CheckDistribution(result *Result) error {
	for _, hour := range result.Shared {
		if sum := hour.Owners.Add(hour.Platform); !sum.IsZero() {
			return fmt.Errorf("check C7e: distribution at %s sums to %s, want 0", hour.Hour.Format(time.RFC3339), sum)
		}
	}
	rounding := decimal.Zero
	for i := range result.Invoices {
		rounding = rounding.Add(result.Invoices[i].Effects.Rounding)
	}
	half := decimal.New(5, -result.MinorUnit-1).Mul(decimal.NewFromInt(int64(len(result.Invoices))))
	if rounding.Abs().GreaterThan(half) {
		return fmt.Errorf("check C7e: rounding sums to %s, more than %s over %d invoices", rounding, half,
			len(result.Invoices))
	}
	return nil
}

// Capacity is the present capacity of a model in an hour, whoever held it.
type Capacity struct {
	Hour  time.Time
	Model string
	// Slices is the number of slices of each GPU.
	Slices int
	// SliceMS is Σ slices × milliseconds present.
	SliceMS int64
}

// ListValue sums both sides of C7b over any UTC hours: the list value of rows, and that of the capacity.
type ListValue struct {
	book     *prices.Book
	Tenants  decimal.Decimal
	Platform decimal.Decimal
	rest     rests
	sliceMS  rests
}

// NewListValue returns an empty sum at a book's rates.
func NewListValue(book *prices.Book) *ListValue {
	return &ListValue{book: book, rest: rests{}, sliceMS: rests{}}
}

// AddRows adds the rows of one UTC hour.
func (v *ListValue) AddRows(rows []Row) error {
	merged, err := merge(rows)
	if err != nil {
		return err
	}
	for _, row := range merged {
		rate, err := v.rate(row.Hour, row.Model)
		if err != nil {
			return err
		}
		quantity, rest := gpuHours(row.SliceMS, row.Slices)
		v.rest.add(row.Slices, rate, rest)
		if row.Tenant == "" {
			v.Platform = v.Platform.Add(quantity.Mul(rate))
		} else {
			v.Tenants = v.Tenants.Add(quantity.Mul(rate))
		}
	}
	return nil
}

// AddCapacity adds capacity.
func (v *ListValue) AddCapacity(c Capacity) error {
	rate, err := v.rate(c.Hour, c.Model)
	if err != nil {
		return err
	}
	v.sliceMS.add(c.Slices, rate, c.SliceMS)
	return nil
}

func (v *ListValue) rate(hour time.Time, model string) (decimal.Decimal, error) {
	at := v.book.At(hour)
	if at < 0 {
		return decimal.Zero, &BeforeBookError{hour.UTC(), v.book.Versions[0].Effective, v.book.Name}
	}
	price, ok := v.book.Versions[at].Models[model]
	if !ok {
		return decimal.Zero, &MissingModelError{model, hour.UTC(), v.book.Versions[at].Effective, v.book.Name}
	}
	return price.GPUHour, nil
}

// QuantityRounding is the difference caused by rounding quantities, half-even to 18 places.
func (v *ListValue) QuantityRounding() decimal.Decimal {
	return prices.RoundRat(v.rest.value(), 2*places)
}

// Capacity is the capacity's list value, half-even to 18 places.
func (v *ListValue) Capacity() decimal.Decimal {
	return prices.RoundRat(v.capacity(), 2*places)
}

// capacity is exact: slice_ms ÷ (slices × 3,600,000) × rate.
func (v *ListValue) capacity() *big.Rat {
	sum := new(big.Rat)
	for k, sliceMS := range v.sliceMS {
		hours := new(big.Rat).SetFrac(sliceMS, big.NewInt(int64(k.slices)*3_600_000))
		sum.Add(sum, hours.Mul(hours, decimal.RequireFromString(k.rate).Rat()))
	}
	return sum
}

// Check checks C7b: tenants + platform + quantity rounding = capacity, exactly.
func (v *ListValue) Check() error {
	sum := new(big.Rat).Add(v.Tenants.Rat(), v.Platform.Rat())
	sum.Add(sum, v.rest.value())
	capacity := v.capacity()
	if sum.Cmp(capacity) != 0 {
		return fmt.Errorf("check C7b: list value of tenants %s, platform %s and quantity rounding %s "+
			"is not that of capacity, %s",
			v.Tenants, v.Platform, v.QuantityRounding(), capacity.FloatString(2*places))
	}
	return nil
}
