package rating

import (
	"time"

	"github.com/shopspring/decimal"
)

// Charge is one exact amount as it arises: of one UTC hour, or of the month as
// a whole. An invoice's charges sum to its effects, and to its total.
type Charge struct {
	// Tenant is who is charged; empty: the platform, whose list value nobody is
	// billed for.
	Tenant string
	// Hour is the UTC hour; zero: the amount is of the month (fixed discount,
	// minimum, energy, rounding).
	Hour time.Time
	// Version is the index in the book's Versions of the prices in force; -1
	// where the amount is of no one version.
	Version int
	Effect  string
	Project string
	Model   string
	Profile string
	Bucket  string
	// SliceMS, Slices and ProfileSlices are of charges of effect list and profile.
	SliceMS       int64
	Slices        int
	ProfileSlices int
	// Amount is exactly Quantity × UnitPrice where Unit is not empty.
	Quantity  decimal.Decimal
	Unit      string
	UnitPrice decimal.Decimal
	Amount    decimal.Decimal
	// Detail says in words what the figures cannot.
	Detail string
}

// times is the charge with its quantity, price and their product.
func (c Charge) times(quantity decimal.Decimal, unit string, price decimal.Decimal) Charge {
	c.Quantity, c.Unit, c.UnitPrice, c.Amount = quantity, unit, price, quantity.Mul(price)
	return c
}

// of is the charge with an amount that is no product.
func (c Charge) of(amount decimal.Decimal) Charge {
	c.Amount = amount
	return c
}

// Negated is what takes the charge back.
func (c Charge) Negated() Charge {
	c.SliceMS, c.Quantity, c.Amount = -c.SliceMS, c.Quantity.Neg(), c.Amount.Neg()
	return c
}
