package rating

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
)

// Effects are the parts of an invoice's total, in the order in which each is computed from the previous ones (R7c).
// Amounts are exact, in the book's currency.
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

// The effects' names on lines.
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

// Ordered returns all eleven effects in their order.
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

// Invoice is the document of one tenant and month. Amounts are exact decimals without trailing zeros; the total has
// the currency's places, hours have 9. It doesn't contain the time of its creation: the same usage gives the same
// bytes. Package invoice sets what follows from decisions: number, revision, status, kind, correction and reason.
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
	// Corrects is the number of the revision before a note, Reason the reason of the note; both are empty on
	// invoices.
	Corrects string `json:"corrects,omitempty"`
	Reason   string `json:"reason,omitempty"`
	TimeZone string `json:"time_zone"`
	// From (inclusive) and To (exclusive) are the month's UTC hours.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Buckets are the tenant's GPU-hours by bucket; their sum is GPUHours.
	Buckets HeldHours `json:"buckets"`
	// UsageHash is the SHA-256, in hex, of everything from which the invoice follows besides the price book: its
	// usage, supplied hours and distribution (C8, R20).
	UsageHash string `json:"usage_sha256"`
	PriceHash string `json:"price_book_sha256"`
	Lines     []Line `json:"lines"`
	// Content is the SHA-256, in hex, of the document's bytes; for a draft, of the document that it would be if it
	// were finalised now.
	Content string `json:"-"`
	// Quarantined describes the tenant's hours that are left out of a draft because they can't be billed, and what to
	// do; such a draft can't be finalised.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is the class of the reason in Quarantined; empty: none.
	Withheld Reason `json:"-"`
}

// Reason is why something can't be decided; package invoice lists the values.
type Reason string

// HeldHours are a tenant's GPU-hours by bucket.
type HeldHours struct {
	Active   Money `json:"active"`
	Idle     Money `json:"idle"`
	Unproven Money `json:"unproven"`
}

// NewInvoice returns the document of a tenant and month without usage or terms.
func NewInvoice(book *prices.Book, period Period, tenant string) Invoice {
	zone := book.Location(tenant)
	from, to := period.Bounds(zone)
	return Invoice{
		Tenant: tenant, Period: period.String(), Currency: book.Currency, PriceHash: book.Hash, TimeZone: zone.String(),
		From: from, To: to,
	}.with(decimal.Zero, Effects{}, book.MinorUnit, []Line{})
}

// with returns the document with its figures; places are those of the total.
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

// Line explains a part of an effect. With a unit, the amount is exactly quantity × unit price; the unit is gpu_hour,
// profile_hour, kwh, or the currency if a share of an amount is charged, such as a discount of 0.2 on 498 USD.
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
	// Detail is an explanation in words; no code reads it.
	Detail string `json:"detail,omitempty"`
	// TierAbove is the threshold in GPU-hours of a line of effect tier; ReportedAs the part of the GPU as which the
	// usage's profile was reported, such as 1/7, in hours with contradictory reports; else empty. Decided documents
	// contain neither: rate the usage again to obtain them.
	TierAbove  string `json:"-"`
	ReportedAs string `json:"-"`
}

// Platform is the platform's own account, by the book's zone. List values obey C7b: tenants + platform + quantity
// rounding = capacity.
type Platform struct {
	GPUHours Money `json:"gpu_hours"`
	// List is the list value of the platform's rows.
	List Money `json:"list"`
	// QuantityRounding is the difference caused by rounding quantities, over all rows, half-even to 18 places; C7b is
	// checked on the exact fraction.
	QuantityRounding Money `json:"quantity_rounding"`
	// Distribution is the negative sum of the owners' parts.
	Distribution Money `json:"distribution"`
	EnergyMJ     Money `json:"energy_mj"`
	// UnattributedEnergyMJ, TenantsList and CapacityList require the ledger; Rate leaves them empty.
	UnattributedEnergyMJ Money `json:"unattributed_energy_mj"`
	TenantsList          Money `json:"tenants_list"`
	CapacityList         Money `json:"capacity_list"`
	// Lines are the list value by model and bucket.
	Lines []Line `json:"lines"`
	// Quarantined describes the hours that are left out of this account.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is like an invoice's.
	Withheld Reason `json:"-"`
}

// SharedHour is the distribution of one UTC hour (C7e): the owners' part and the platform's, which is negative.
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

// Difference is the difference between a tenant's month rated again and as rated before: a note (R17). Effects,
// lines, hours and total are differences, lines by key and price; the usage hash is the new one.
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
