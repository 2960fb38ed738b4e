package rating

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// Effects are what an invoice is made of, in the order in which each follows
// from those before it (R7c). Amounts are exact, in the book's currency.
type Effects struct {
	List          decimal.Decimal `json:"list"`
	Profile       decimal.Decimal `json:"profile"`
	Tier          decimal.Decimal `json:"tier"`
	Discount      decimal.Decimal `json:"discount"`
	FixedDiscount decimal.Decimal `json:"fixed_discount"`
	Reservation   decimal.Decimal `json:"reservation"`
	IdleSurcharge decimal.Decimal `json:"idle_surcharge"`
	Minimum       decimal.Decimal `json:"minimum"`
	Energy        decimal.Decimal `json:"energy"`
	Distribution  decimal.Decimal `json:"distribution"`
	Rounding      decimal.Decimal `json:"rounding"`
}

// The effects' names, as on lines.
const (
	EffectList          = "list"
	EffectProfile       = "profile"
	EffectTier          = "tier"
	EffectDiscount      = "discount"
	EffectFixedDiscount = "fixed_discount"
	EffectReservation   = "reservation"
	EffectIdleSurcharge = "idle_surcharge"
	EffectMinimum       = "minimum"
	EffectEnergy        = "energy"
	EffectDistribution  = "distribution"
	EffectRounding      = "rounding"
)

// Effect is one of the eleven with its amount.
type Effect struct {
	Name   string
	Amount decimal.Decimal
}

// Ordered are all eleven effects in their order.
func (e Effects) Ordered() []Effect {
	return []Effect{
		{EffectList, e.List},
		{EffectProfile, e.Profile},
		{EffectTier, e.Tier},
		{EffectDiscount, e.Discount},
		{EffectFixedDiscount, e.FixedDiscount},
		{EffectReservation, e.Reservation},
		{EffectIdleSurcharge, e.IdleSurcharge},
		{EffectMinimum, e.Minimum},
		{EffectEnergy, e.Energy},
		{EffectDistribution, e.Distribution},
		{EffectRounding, e.Rounding},
	}
}

// Sum is the invoice's total.
func (e Effects) Sum() decimal.Decimal {
	sum := decimal.Zero
	for _, effect := range e.Ordered() {
		sum = sum.Add(effect.Amount)
	}
	return sum
}

// hourPlaces is the precision of hours on documents (R8).
const hourPlaces = 9

// Invoice is the document of one tenant and month. Amounts are exact decimals
// without trailing zeros; the total has the currency's places, hours have 9.
// It says nothing of when it was made: the same usage gives the same bytes.
// Rating leaves to package invoice what follows from decisions: number, revision,
// status, kind, and what is corrected for which reason.
type Invoice struct {
	Tenant   string  `json:"tenant"`
	Period   string  `json:"period"`
	Currency string  `json:"currency"`
	GPUHours Money   `json:"gpu_hours"`
	Effects  Effects `json:"effects"`
	Total    Money   `json:"total"`
	Number   string  `json:"number"`
	Revision int     `json:"revision"`
	Status   string  `json:"status"`
	Kind     string  `json:"kind"`
	// Corrects is the number of the revision before a note, Reason why there is
	// one; both are empty on invoices.
	Corrects string `json:"corrects,omitempty"`
	Reason   string `json:"reason,omitempty"`
	TimeZone string `json:"time_zone"`
	// From (inclusive) and To (exclusive) are the month's UTC hours.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Buckets are the tenant's GPU-hours; together they are GPUHours.
	Buckets HeldHours `json:"buckets"`
	// UsageHash is the SHA-256, in hex, of all the invoice follows from beside
	// the price book: its usage, supplied hours and distribution (C8, R20).
	UsageHash string `json:"usage_sha256"`
	PriceHash string `json:"price_book_sha256"`
	Lines     []Line `json:"lines"`
	// Content is the SHA-256, in hex, of the document's bytes; a draft's is that
	// of the document it would be if it were finalised now.
	Content string `json:"-"`
	// Quarantined says which hours of the tenant are left out of a draft, for
	// they can't be billed, and what to do; such a draft can't be finalised.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is the class of what Quarantined says; empty where it says nothing.
	Withheld Reason `json:"-"`
}

// Reason is why something can't be decided; package invoice names them all.
type Reason string

// HeldHours are a tenant's GPU-hours by bucket.
type HeldHours struct {
	Active   Money `json:"active"`
	Idle     Money `json:"idle"`
	Unproven Money `json:"unproven"`
}

// NewInvoice is the document of a tenant and month without usage or terms.
func NewInvoice(book *prices.Book, period Period, tenant string) Invoice {
	zone := book.Location(tenant)
	from, to := period.Bounds(zone)
	return Invoice{
		Tenant: tenant, Period: period.String(), Currency: book.Currency, PriceHash: book.Hash, TimeZone: zone.String(),
		From: from, To: to,
	}.with(decimal.Zero, Effects{}, book.MinorUnit, []Line{})
}

// with is the document with its figures; places are the total's.
func (i Invoice) with(gpuHours decimal.Decimal, effects Effects, places int32, lines []Line) Invoice {
	held := map[string]decimal.Decimal{}
	for _, line := range lines {
		if line.Effect == EffectList {
			held[line.Bucket] = held[line.Bucket].Add(line.Quantity.Decimal)
		}
	}
	hours := func(bucket string) Money { return Fixed(held[bucket], hourPlaces) }
	i.GPUHours, i.Effects, i.Total, i.Lines = Fixed(gpuHours, hourPlaces), effects, Fixed(effects.Sum(), places), lines
	i.Buckets = HeldHours{Active: hours(bucketActive), Idle: hours(bucketIdle), Unproven: hours(bucketUnproven)}
	return i
}

// Units of a line's quantity.
const (
	UnitGPUHour     = "gpu_hour"
	UnitProfileHour = "profile_hour"
	UnitKWh         = "kwh"
)

// Line explains a part of an effect. With a unit, the amount is exactly
// quantity × unit price; the unit is gpu_hour, profile_hour, kwh, or the
// currency, where a share of an amount is charged, as in a discount of 0.2 on
// 498 USD.
type Line struct {
	Effect    string `json:"effect"`
	Project   string `json:"project,omitempty"`
	Model     string `json:"model,omitempty"`
	Profile   string `json:"profile,omitempty"`
	SKU       string `json:"sku,omitempty"`
	Bucket    string `json:"bucket,omitempty"`
	Quantity  Money  `json:"quantity,omitempty,omitzero"`
	Unit      string `json:"unit,omitempty"`
	UnitPrice Money  `json:"unit_price,omitempty,omitzero"`
	Amount    Money  `json:"amount"`
	// Detail says in words what the figures cannot; nothing reads it.
	Detail string `json:"detail,omitempty"`
	// TierAbove is the threshold in GPU-hours that a line of effect tier is beyond;
	// ReportedAs the part of the GPU that the usage's profile was reported as, such as
	// 1/7, in hours in which other reports said otherwise; else empty. A document as
	// it was decided has neither: rate its usage again to know them.
	TierAbove  string `json:"-"`
	ReportedAs string `json:"-"`
}

// Platform is the platform's own account, by the book's zone. List values obey
// C7b: tenants + platform + quantity rounding = capacity.
type Platform struct {
	GPUHours Money `json:"gpu_hours"`
	// List is the list value of the platform's rows.
	List Money `json:"list"`
	// QuantityRounding is what rounding quantities left to capacity, over all
	// rows, half-even to 18 places; C7b is checked on the exact fraction.
	QuantityRounding Money `json:"quantity_rounding"`
	// Distribution is minus what was given to owners.
	Distribution Money `json:"distribution"`
	EnergyMJ     Money `json:"energy_mj"`
	// UnattributedEnergyMJ, TenantsList and CapacityList are known to who reads the
	// ledger; Rate leaves them empty.
	UnattributedEnergyMJ Money `json:"unattributed_energy_mj"`
	TenantsList          Money `json:"tenants_list"`
	CapacityList         Money `json:"capacity_list"`
	// Lines are the list value by model and bucket.
	Lines []Line `json:"lines"`
	// Quarantined says which hours are left out of this account.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is as an invoice's.
	Withheld Reason `json:"-"`
}

// SharedHour is the distribution of one UTC hour (C7e): the owners' part and
// the platform's, which is negative.
type SharedHour struct {
	Hour     time.Time
	Owners   decimal.Decimal
	Platform decimal.Decimal
}

// Result is a rated month.
type Result struct {
	// Invoices are sorted by tenant.
	Invoices []Invoice
	Platform Platform
	// Shared has an entry for every hour in which platform time was distributed.
	Shared []SharedHour
	// MinorUnit is the number of decimal places of totals.
	MinorUnit int32
}

// Difference is what a tenant's month rated anew comes to beyond what was
// rated before: a note (R17). Effects, lines, hours and total are differences,
// lines by what they name and cost; the usage hash is the new one's.
func Difference(after, before *Invoice) Invoice {
	return after.with(after.GPUHours.Sub(before.GPUHours.Decimal), after.Effects.sub(before.Effects), after.Total.Places(),
		differenceOfLines(after.Lines, before.Lines))
}

func (e Effects) sub(other Effects) Effects {
	return Effects{
		List: e.List.Sub(other.List), Profile: e.Profile.Sub(other.Profile), Tier: e.Tier.Sub(other.Tier),
		Discount: e.Discount.Sub(other.Discount), FixedDiscount: e.FixedDiscount.Sub(other.FixedDiscount),
		Reservation: e.Reservation.Sub(other.Reservation), IdleSurcharge: e.IdleSurcharge.Sub(other.IdleSurcharge),
		Minimum: e.Minimum.Sub(other.Minimum), Energy: e.Energy.Sub(other.Energy),
		Distribution: e.Distribution.Sub(other.Distribution), Rounding: e.Rounding.Sub(other.Rounding),
	}
}

func differenceOfLines(after, before []Line) []Line {
	sums := lineSums{}
	for _, line := range after {
		sums.add(line, line.Quantity.Decimal, line.UnitPrice.Decimal, line.Amount.Decimal)
	}
	for _, line := range before {
		sums.add(line, line.Quantity.Neg(), line.UnitPrice.Decimal, line.Amount.Neg())
	}
	return sums.sorted()
}
