package focus

import (
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/rating"
)

// Types of columns as named by FOCUS.
const (
	typeString  = "String"
	typeDecimal = "Decimal"
	typeInstant = "Date/Time"
)

// column is one of the file's columns. Its function returns a row's value: a string, a decimal.Decimal, a time.Time,
// an object, or nil for null.
type column struct {
	name, kind string
	// only is the only version with the column; empty: both.
	only string
	// validator columns are written only for the published validator, whose checks read them though their conditions
	// don't hold.
	validator bool
	value     func(p *page) any
}

// object is a JSON object; keys are written in the order of their names.
type object map[string]any

// columnsOf returns a file's columns: FOCUS's, then the custom ones.
func columnsOf(options Options) []column {
	var list []column
	for _, c := range columns {
		if (c.only == "" || c.only == options.Version) && (!c.validator || options.Validator) {
			list = append(list, c)
		}
	}
	return list
}

func text(of func(p *page) string) func(*page) any {
	return func(p *page) any {
		if s := of(p); s != "" {
			return s
		}
		return nil
	}
}

func issuer(p *page) string { return p.options.Issuer }

func currency(p *page) string { return p.bill.Currency }

func quantity(p *page) decimal.Decimal { return p.quantity }

func listPrice(p *page) decimal.Decimal { return p.list }

func contractedPrice(p *page) decimal.Decimal { return p.contracted }

func billed(p *page) any { return p.billed() }

func sliceMS(p *page) decimal.Decimal { return decimal.NewFromInt(p.sliceMS) }

var columns = []column{
	{name: "BillingAccountId", kind: typeString, value: text(func(p *page) string { return p.options.Account })},
	{name: "BillingAccountName", kind: typeString, value: text(func(p *page) string { return p.options.AccountName })},
	{name: "BillingCurrency", kind: typeString, value: text(currency)},
	{name: "BillingPeriodStart", kind: typeInstant, value: func(p *page) any { return p.periodStart }},
	{name: "BillingPeriodEnd", kind: typeInstant, value: func(p *page) any { return p.periodEnd }},
	{name: "InvoiceId", kind: typeString, value: text(func(p *page) string { return p.bill.Number })},
	{name: "InvoiceIssuerName", kind: typeString, value: text(issuer)},
	{name: "ProviderName", kind: typeString, only: Version12, value: text(issuer)},
	{name: "PublisherName", kind: typeString, only: Version12, value: text(issuer)},
	{name: "ServiceProviderName", kind: typeString, only: Version14, value: text(issuer)},
	{name: "HostProviderName", kind: typeString, only: Version14, value: text(issuer)},
	{name: "SubAccountId", kind: typeString, value: text(subAccountID)},
	{name: "SubAccountName", kind: typeString, value: text(subAccountName)},
	{name: "SubAccountType", kind: typeString, value: text(subAccountType)},
	{name: "ChargeCategory", kind: typeString, value: text(func(p *page) string { return natures[p.effect].category })},
	{name: "ChargeClass", kind: typeString, value: text(chargeClass)},
	{name: "ChargeDescription", kind: typeString, value: text(describe)},
	{name: "ChargeFrequency", kind: typeString, value: text(func(p *page) string { return natures[p.effect].frequency })},
	{name: "ChargePeriodStart", kind: typeInstant, value: func(p *page) any { return time.Unix(p.start, 0) }},
	{name: "ChargePeriodEnd", kind: typeInstant, value: func(p *page) any { return time.Unix(p.end, 0) }},
	{name: "ServiceCategory", kind: typeString, value: text(func(*page) string { return "Compute" })},
	{name: "ServiceSubcategory", kind: typeString, value: text(func(*page) string { return "Other (Compute)" })},
	{name: "ServiceName", kind: typeString, value: text(func(*page) string { return "GPU Compute" })},
	{name: "SkuId", kind: typeString, value: text(sku)},
	{name: "SkuMeter", kind: typeString, value: text(func(p *page) string { return meters[p.unit] })},
	// One price per SKU: a change of price, or a contract, doesn't change the id.
	{name: "SkuPriceId", kind: typeString, value: text(sku)},
	{name: "SkuPriceDetails", kind: typeString, value: skuPriceDetails},
	{name: "PricingCategory", kind: typeString, value: text(pricingCategory)},
	{name: "PricingQuantity", kind: typeDecimal, value: priced(quantity)},
	{name: "PricingUnit", kind: typeString, value: text(func(p *page) string { return p.unit })},
	{name: "ListUnitPrice", kind: typeDecimal, value: priced(listPrice)},
	{name: "ContractedUnitPrice", kind: typeDecimal, value: priced(contractedPrice)},
	{name: "ConsumedQuantity", kind: typeDecimal, value: priced(consumed)},
	{name: "ConsumedUnit", kind: typeString, value: text(consumedUnit)},
	{name: "CapacityReservationId", kind: typeString, value: text(reservation)},
	{name: "CapacityReservationStatus", kind: typeString, value: text(reservationStatus)},
	{name: "ListCost", kind: typeDecimal, value: cost(listPrice)},
	{name: "ContractedCost", kind: typeDecimal, value: cost(contractedPrice)},
	{name: "EffectiveCost", kind: typeDecimal, value: billed},
	{name: "BilledCost", kind: typeDecimal, value: billed},
	{name: "Tags", kind: typeString, value: tags},
	{name: "CommitmentDiscountStatus", kind: typeString, validator: true, value: func(*page) any { return nil }},
	{name: "PricingCurrency", kind: typeString, validator: true, value: text(currency)},
	{name: "PricingCurrencyListUnitPrice", kind: typeDecimal, validator: true, value: priced(listPrice)},
	{name: "PricingCurrencyContractedUnitPrice", kind: typeDecimal, validator: true, value: priced(contractedPrice)},
	{name: "PricingCurrencyEffectiveCost", kind: typeDecimal, validator: true, value: billed},

	{name: "x_BillKind", kind: typeString, value: text(func(p *page) string { return p.bill.Kind })},
	{name: "x_ChargedMonth", kind: typeString, value: text(func(p *page) string { return p.bill.Period })},
	{name: "x_TimeZone", kind: typeString, value: text(func(p *page) string { return p.bill.TimeZone })},
	{name: "x_Effect", kind: typeString, value: text(func(p *page) string { return p.effect })},
	{name: "x_CapacityBucket", kind: typeString, value: text(func(p *page) string { return p.bucket })},
	{name: "x_Project", kind: typeString, value: text(func(p *page) string { return p.project })},
	{name: "x_GPUModel", kind: typeString, value: text(func(p *page) string { return p.model })},
	{name: "x_MIGProfile", kind: typeString, value: text(func(p *page) string { return p.profile })},
	{name: "x_SKU", kind: typeString, value: text(skuName)},
	{name: "x_GPUSlices", kind: typeDecimal, value: positive(func(p *page) int { return p.slices })},
	{name: "x_ProfileSlices", kind: typeDecimal, value: positive(func(p *page) int { return p.profileSlices })},
	{name: "x_SliceMilliseconds", kind: typeDecimal, value: ofTime(sliceMS)},
	{name: "x_GPUHours", kind: typeDecimal, value: ofTime(func(p *page) decimal.Decimal { return p.gpuHours })},
	{name: "x_WholeGPUListCost", kind: typeDecimal, value: wholeList},
	{name: "x_PriceBookVersion", kind: typeInstant, value: bookVersion},
	{name: "x_PriceBookHash", kind: typeString, value: text(func(p *page) string { return p.bill.Book.Hash })},
	{name: "x_UsageHash", kind: typeString, value: text(func(p *page) string { return p.bill.UsageHash })},
}

// nature is an effect's classification in FOCUS.
type nature struct{ category, frequency, title string }

// The categories and frequencies in use.
const (
	categoryUsage = "Usage"
	adjustment    = "Adjustment"
	credit        = "Credit"
	usageBased    = "Usage-Based"
	recurring     = "Recurring"
)

var natures = map[string]nature{
	rating.EffectList:          {categoryUsage, usageBased, "GPU time"},
	rating.EffectProfile:       {categoryUsage, usageBased, "MIG instance time"},
	rating.EffectTier:          {adjustment, usageBased, "Graduated price"},
	rating.EffectFixedDiscount: {credit, recurring, "Fixed discount of the month"},
	rating.EffectReservation:   {categoryUsage, usageBased, "Reserved and not held"},
	rating.EffectIdleSurcharge: {adjustment, usageBased, "Surcharge on idle time"},
	rating.EffectMinimum:       {adjustment, recurring, "Minimum of the month"},
	rating.EffectEnergy:        {categoryUsage, usageBased, "Energy"},
	rating.EffectDistribution:  {adjustment, usageBased, "Share of free and stranded time"},
	rating.EffectRounding:      {adjustment, recurring, "Rounding to the currency's minor unit"},
	quantityRounding:           {adjustment, recurring, "List value that rounding quantities left to capacity"},
}

// meters are the measured quantities, by unit.
var meters = map[string]string{unitGPUHours: "GPU Time", unitInstanceHours: "MIG Instance Time", unitKWh: "Energy"}

func subAccountID(p *page) string {
	if p.bill.Kind == KindPlatform {
		return "platform-unallocated"
	}
	return "tenant/" + p.bill.Tenant
}

func subAccountName(p *page) string {
	if p.bill.Kind == KindPlatform {
		return "Platform (unallocated)"
	}
	return p.bill.Tenant
}

func subAccountType(p *page) string {
	if p.bill.Kind == KindPlatform {
		return "Platform"
	}
	return "Tenant"
}

func chargeClass(p *page) string {
	if p.bill.correction() {
		return "Correction"
	}
	return ""
}

func describe(p *page) string {
	parts := []string{natures[p.effect].title}
	if p.model != "" {
		parts[0] += " of " + strings.TrimSpace(p.model+" "+p.profile)
	}
	for _, part := range []string{p.bucket, p.detail} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if p.project != "" {
		parts = append(parts, "project "+p.project)
	}
	return strings.Join(parts, ", ")
}

// skuPart escapes a name as part of an id: separators, and characters that some readers don't show.
func skuPart(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' || c == '%' || c == '/' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func sku(p *page) string {
	switch p.unit {
	case unitGPUHours:
		return "gpu/" + skuPart(p.model)
	case unitInstanceHours:
		return "gpu/" + skuPart(p.model) + "/mig/" + skuPart(p.profile)
	case unitKWh:
		return "energy/kilowatt-hour"
	}
	return ""
}

// skuName is the price book's name of what an owner held.
func skuName(p *page) string {
	if p.bill.Kind == KindPlatform || p.effect != rating.EffectList && p.effect != rating.EffectProfile {
		return ""
	}
	return p.bill.Book.SKUName(p.profile)
}

// skuPriceDetails describe one unit of the SKU; see FOCUS 1.2, SkuPriceDetails.
func skuPriceDetails(p *page) any {
	switch p.unit {
	case unitGPUHours:
		return object{"GpuCount": 1, "InstanceType": p.model}
	case unitInstanceHours:
		return object{"InstanceType": p.model, "x_MigProfile": p.profile}
	}
	return nil
}

func pricingCategory(p *page) string {
	if p.unit == "" {
		return ""
	}
	return "Standard"
}

// priced is null if there is no unit.
func priced(of func(p *page) decimal.Decimal) func(*page) any {
	return func(p *page) any {
		if p.unit == "" {
			return nil
		}
		return of(p)
	}
}

// cost is unit price × quantity, else the billed amount.
func cost(price func(p *page) decimal.Decimal) func(*page) any {
	return func(p *page) any {
		if p.unit == "" {
			return p.billed()
		}
		return price(p).Mul(p.quantity)
	}
}

// consumed is the measured quantity: GPU-hours of held time, whatever their pricing; zero for what nobody held.
func consumed(p *page) decimal.Decimal {
	switch {
	case p.effect == rating.EffectEnergy:
		return p.quantity
	case p.bill.Kind == KindPlatform || p.effect == rating.EffectReservation:
		return decimal.Zero
	}
	return p.gpuHours
}

func consumedUnit(p *page) string {
	if p.unit == unitInstanceHours {
		return unitGPUHours
	}
	return p.unit
}

func reservation(p *page) string {
	if p.effect != rating.EffectReservation {
		return ""
	}
	return "reservation/" + skuPart(p.bill.Tenant) + "/" + skuPart(p.model)
}

func reservationStatus(p *page) string {
	if p.effect != rating.EffectReservation {
		return ""
	}
	return "Unused"
}

// tagPrefix is the prefix of our tags (FOCUS 1.2, Tags).
const tagPrefix = "gputally/"

func tags(p *page) any {
	if p.project == "" {
		return nil
	}
	return object{tagPrefix + "project": p.project}
}

func positive(of func(p *page) int) func(*page) any {
	return func(p *page) any {
		if n := of(p); n > 0 {
			return decimal.NewFromInt(int64(n))
		}
		return nil
	}
}

// ofTime is null if no time is charged.
func ofTime(of func(p *page) decimal.Decimal) func(*page) any {
	return func(p *page) any {
		if p.effect != rating.EffectList && p.effect != rating.EffectProfile {
			return nil
		}
		return of(p)
	}
}

func wholeList(p *page) any {
	if p.effect == quantityRounding {
		return p.wholeList
	}
	return ofTime(func(p *page) decimal.Decimal { return p.wholeList })(p)
}

func bookVersion(p *page) any {
	if p.version < 0 {
		return nil
	}
	return p.bill.Book.Versions[p.version].Effective
}
