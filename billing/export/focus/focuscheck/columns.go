package focuscheck

import "slices"

// The versions of FOCUS that are known.
const (
	version12 = "1.2"
	version14 = "1.4"
)

// kind is what a column's cells are.
type kind int

const (
	text kind = iota
	number
	instant
	object
)

// column is one that FOCUS defines, with the ids of the rules that its cells,
// or its absence, break.
type column struct {
	name string
	kind kind
	only string // the one version that has it; empty: both
	// presence is where a file must have it, conditional ones included whose
	// condition holds for who publishes prices, has contracts, sub accounts of
	// several types, reservations and tags, and measures usage.
	presence string
	typed    string // not a number, or not an instant
	notNull  string
	allowed  string // none of the allowed values
	anyName  bool   // people name it: "none" may be its name
}

func (c *column) in(version string) bool { return c.only == "" || c.only == version }

// check is the rule that a cell breaks by itself; empty: none.
func (c *column) check(cell string) string {
	switch {
	case cell == "":
		return c.notNull
	case c.kind != object && !c.anyName && placeholder(cell):
		return rulePlaceholder
	}
	wrong := ""
	switch c.kind {
	case number:
		wrong = wrongNumber(cell, c.typed)
	case instant:
		wrong = wrongInstant(cell, c.typed)
	case object:
		wrong = wrongObject(cell)
	case text:
		wrong = wrongText(cell)
	}
	if wrong == "" && c.allowed != "" && !slices.Contains(allowedValues(c.name), cell) {
		return c.allowed
	}
	return wrong
}

// columnsOf are a version's columns by name.
func columnsOf(version string) map[string]*column {
	known := map[string]*column{}
	for i := range columns {
		if columns[i].in(version) {
			known[columns[i].name] = &columns[i]
		}
	}
	return known
}

// columns are those of 1.2, and of 1.4 what is known to be new.
var columns = []column{
	{name: "AvailabilityZone"},
	{name: "BilledCost", kind: number, typed: "BilledCost-C-001-M", presence: "CostAndUsage-D-006-M", notNull: "BilledCost-C-003-M"},
	{name: "BillingAccountId", presence: "CostAndUsage-D-024-M", notNull: "BillingAccountId-C-001-M"},
	{name: "BillingAccountName", presence: "CostAndUsage-D-005-M", notNull: "BillingAccountName-C-003-C", anyName: true},
	{name: "BillingAccountType"},
	{name: "BillingCurrency", presence: "CostAndUsage-D-035-M", notNull: "BillingCurrency-C-004-M"},
	{name: "BillingPeriodEnd", kind: instant, typed: "BillingPeriodEnd-C-001-M", presence: "CostAndUsage-D-010-M", notNull: "BillingPeriodEnd-C-003-M"},
	{name: "BillingPeriodStart", kind: instant, typed: "BillingPeriodStart-C-001-M", presence: "CostAndUsage-D-009-M", notNull: "BillingPeriodStart-C-003-M"},
	{name: "CapacityReservationId", presence: "CostAndUsage-D-065-C"},
	{name: "CapacityReservationStatus", presence: "CostAndUsage-D-020-C", allowed: "CapacityReservationStatus-C-006-M"},
	{name: "ChargeCategory", presence: "CostAndUsage-D-008-M", notNull: "ChargeCategory-C-002-M", allowed: "ChargeCategory-C-003-M"},
	{name: "ChargeClass", presence: "CostAndUsage-D-026-M"},
	{name: "ChargeDescription", anyName: true, presence: "CostAndUsage-D-025-M"},
	{name: "ChargeFrequency", notNull: "ChargeFrequency-C-002-M", allowed: "ChargeFrequency-C-003-M"},
	{name: "ChargePeriodEnd", kind: instant, typed: "ChargePeriodEnd-C-001-M", presence: "CostAndUsage-D-028-M", notNull: "ChargePeriodEnd-C-003-M"},
	{name: "ChargePeriodStart", kind: instant, typed: "ChargePeriodStart-C-001-M", presence: "CostAndUsage-D-037-M", notNull: "ChargePeriodStart-C-003-M"},
	{name: "CommitmentDiscountCategory"},
	{name: "CommitmentDiscountId"},
	{name: "CommitmentDiscountName"},
	{name: "CommitmentDiscountQuantity", kind: number, typed: "CommitmentDiscountQuantity-C-001-M"},
	{name: "CommitmentDiscountStatus"},
	{name: "CommitmentDiscountType"},
	{name: "CommitmentDiscountUnit"},
	{name: "ConsumedQuantity", kind: number, typed: "ConsumedQuantity-C-001-M", presence: "CostAndUsage-D-011-C"},
	{name: "ConsumedUnit", presence: "CostAndUsage-D-066-C"},
	{name: "ContractedCost", kind: number, typed: "ContractedCost-C-001-M", presence: "CostAndUsage-D-030-M", notNull: "ContractedCost-C-003-M"},
	{name: "ContractedUnitPrice", kind: number, typed: "ContractedUnitPrice-C-002-M", presence: "CostAndUsage-D-034-C"},
	{name: "EffectiveCost", kind: number, typed: "EffectiveCost-C-001-M", presence: "CostAndUsage-D-031-M", notNull: "EffectiveCost-C-003-M"},
	{name: "InvoiceId"},
	{name: "InvoiceIssuerName", presence: "CostAndUsage-D-023-M", notNull: "InvoiceIssuerName-C-003-M"},
	{name: "ListCost", kind: number, typed: "ListCost-C-001-M", presence: "CostAndUsage-D-032-M", notNull: "ListCost-C-003-M"},
	{name: "ListUnitPrice", kind: number, typed: "ListUnitPrice-C-001-M", presence: "CostAndUsage-D-004-C"},
	{name: "PricingCategory", presence: "CostAndUsage-D-022-C", allowed: "PricingCategory-C-007-M"},
	{name: "PricingCurrency"},
	{name: "PricingCurrencyContractedUnitPrice", kind: number, typed: "PricingCurrencyContractedUnitPrice-C-001-M"},
	{name: "PricingCurrencyEffectiveCost", kind: number, typed: "PricingCurrencyEffectiveCost-C-001-M"},
	{name: "PricingCurrencyListUnitPrice", kind: number, typed: "PricingCurrencyListUnitPrice-C-001-M"},
	{name: "PricingQuantity", kind: number, typed: "PricingQuantity-C-001-M", presence: "CostAndUsage-D-036-M"},
	{name: "PricingUnit", presence: "CostAndUsage-D-068-M"},
	{name: "ProviderName", presence: "CostAndUsage-D-038-M", notNull: "ProviderName-C-003-M", only: version12},
	{name: "PublisherName", presence: "CostAndUsage-D-021-M", notNull: "PublisherName-C-003-M", only: version12},
	{name: "RegionId"},
	{name: "RegionName"},
	{name: "ResourceId"},
	{name: "ResourceName", anyName: true},
	{name: "ResourceType"},
	{name: "ServiceCategory", presence: "CostAndUsage-D-040-M", notNull: "ServiceCategory-C-002-M", allowed: "ServiceCategory-C-003-M"},
	{name: "ServiceName", presence: "CostAndUsage-D-041-M", notNull: "ServiceName-C-003-M"},
	{name: "ServiceSubcategory", notNull: "ServiceSubcategory-C-002-M", allowed: "ServiceSubcategory-C-003-M"},
	{name: "SkuId", presence: "CostAndUsage-D-060-C"},
	{name: "SkuMeter", presence: "CostAndUsage-D-059-C"},
	{name: "SkuPriceDetails", kind: object, presence: "CostAndUsage-D-061-C"},
	{name: "SkuPriceId", presence: "CostAndUsage-D-058-C"},
	{name: "SubAccountId", presence: "CostAndUsage-D-019-C"},
	{name: "SubAccountName", presence: "CostAndUsage-D-029-C", anyName: true},
	{name: "SubAccountType", presence: "CostAndUsage-D-067-C"},
	{name: "Tags", kind: object, presence: "CostAndUsage-D-064-C"},
	{name: "ServiceProviderName", only: version14, presence: "ServiceProviderName-1.4-present", notNull: "ServiceProviderName-1.4-not-null"},
	{name: "HostProviderName", only: version14, presence: "HostProviderName-1.4-present"},
	{name: "AllocatedMethodId", only: version14},
	{name: "AllocatedResourceId", only: version14},
	{name: "AllocatedResourceName", only: version14},
	{name: "ContractApplied", only: version14},
	{name: "AllocatedMethodDetails", only: version14},
	{name: "AllocatedTags", kind: object, only: version14},
}
