package focuscheck

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gputally/gputally/billing/prices"
)

// Rule is one requirement. Source says where it stands: rules of FOCUS 1.2 by
// their ids in its requirements model, others by what they follow from.
type Rule struct{ ID, Column, Text, Source string }

// Where rules stand.
const (
	sourceModel = "FOCUS 1.2, requirements model"
	source14    = "FOCUS 1.4"
	sourceCSV   = "RFC 4180"
)

// ruleWidth is of a line of more or fewer cells than the header.
var ruleWidth = Rule{"csv-width", "", "Each line should contain the same number of fields.", sourceCSV}

// heading is a column's name as a file has it.
type heading struct {
	name                 string
	known, twice, custom bool // FOCUS's; seen before; after a custom column
}

// customName is what a custom column's name looks like: PascalCase after x_.
var customName = regexp.MustCompile(`^x_[A-Z][A-Za-z0-9]*$`)

func isCustom(name string) bool { return strings.HasPrefix(name, "x_") }

// maxName is the longest name of a column that all stores take.
const maxName = 50

var headerRules = []struct {
	Rule
	breaks func(heading) bool
}{
	{Rule{"csv-column-twice", "", "Each column has a name of its own.", sourceCSV}, func(h heading) bool { return h.twice }},
	{Rule{"ColumnHandling-A-010-M", "", "Custom columns MUST be prefixed with a consistent x_ prefix.", sourceModel}, func(h heading) bool {
		return !h.known && !isCustom(h.name)
	}},
	{Rule{"ColumnHandling-A-005-O", "", "Column IDs SHOULD NOT exceed 50 characters.", sourceModel}, func(h heading) bool {
		return len(h.name) > maxName
	}},
	{Rule{"ColumnHandling-A-011-O", "", "Custom columns SHOULD follow the rules of FOCUS columns: Pascal case, alphanumeric.", sourceModel}, func(h heading) bool {
		return isCustom(h.name) && !customName.MatchString(h.name)
	}},
	{Rule{"ColumnHandling-A-013-O", "", "Custom columns SHOULD be listed after all FOCUS columns.", sourceModel}, func(h heading) bool {
		return h.known && h.custom
	}},
}

// rowRule is a rule across a line's cells, or on one that depends on others.
type rowRule struct {
	Rule
	only   string // the one version it is of; empty: both
	needs  []string
	breaks func(r *record) bool
}

// of makes a rule of FOCUS 1.2's model; the column is the first that it needs.
func of(id, text string, needs []string, breaks func(r *record) bool) rowRule {
	return rowRule{Rule: Rule{id, needs[0], text, sourceModel}, needs: needs, breaks: breaks}
}

func (r rowRule) of12() rowRule {
	r.only = version12
	return r
}

// of14 is the rule as 1.4 has it.
func (r rowRule) of14() rowRule {
	r.only, r.Source = version14, source14
	return r
}

// needed are columns' names.
func needed(columns ...string) []string { return columns }

// required are rules of a column that Usage and Purchase must have, unless
// they correct, and Tax must not.
func required(column, forTax, otherwise string) []rowRule {
	needs := needed(column, "ChargeCategory", "ChargeClass")
	return []rowRule{
		of(forTax, column+` MUST be null when ChargeCategory is "Tax".`, needs, func(r *record) bool {
			return r.is("ChargeCategory", "Tax") && !r.null(column)
		}),
		of(otherwise, column+` MUST NOT be null when ChargeCategory is "Usage" or "Purchase" and ChargeClass is not "Correction".`, needs, func(r *record) bool {
			return r.is("ChargeCategory", "Usage", "Purchase") && !r.correction() && r.null(column)
		}),
	}
}

// follows are rules of a column that is null where another is; notNull, where
// given, of one that is null nowhere else.
func follows(column, other, null, notNull string) []rowRule {
	needs := needed(column, other)
	list := []rowRule{of(null, column+" MUST be null when "+other+" is null.", needs, func(r *record) bool {
		return r.null(other) && !r.null(column)
	})}
	if notNull != "" {
		list = append(list, of(notNull, column+" MUST NOT be null when "+other+" is not null.", needs, func(r *record) bool {
			return !r.null(other) && r.null(column)
		}))
	}
	return list
}

// products are the rules of a unit price: not negative, and its product.
func products(price, cost, notNegative, product string) []rowRule {
	text := "The product of " + price + " and PricingQuantity MUST match the " + cost + " when PricingQuantity is not null"
	needs := needed(cost, price, "PricingQuantity", "ChargeClass")
	return []rowRule{
		of(notNegative, price+" MUST be a non-negative decimal value.", needed(price), func(r *record) bool { return r.number(price).IsNegative() }),
		of(product, text+` and ChargeClass is not "Correction".`, needs, func(r *record) bool {
			return !r.correction() && r.differs(price, "PricingQuantity", cost)
		}).of12(),
		of(product, text+".", needs, func(r *record) bool { return r.differs(price, "PricingQuantity", cost) }).of14(),
	}
}

// billed are rules of a cost without a unit price that must be the billed one.
func billed(id, cost string, without ...string) rowRule {
	text := cost + " of a charge unrelated to other charges MUST match the BilledCost."
	return of(id, text, append(needed(cost, "BilledCost", "ChargeCategory"), without...), func(r *record) bool {
		categories := []string{"Credit"}
		if len(without) > 0 {
			categories = []string{"Credit", "Adjustment"}
			if !r.null(without[0]) {
				return false
			}
		}
		return r.is("ChargeCategory", categories...) && !r.number(cost).Equal(r.number("BilledCost"))
	})
}

// ends is a rule of a period's end.
func ends(id, period string) rowRule {
	start, end := period+"Start", period+"End"
	return of(id, end+" MUST be the exclusive end bound of the period, which begins before.", needed(end, start), func(r *record) bool {
		return !r.instant(start).Before(r.instant(end))
	})
}

// unitFormat is UnitFormat's three ways: plural; singular-plural; plural/time.
var unitFormat = regexp.MustCompile(`^([1-9][0-9]* )?[A-Z][A-Za-z]*(-(Milliseconds|Microseconds|Seconds|Minutes|Hours|Days|Months|Years))?` +
	`(/(Millisecond|Microsecond|Second|Minute|Hour|Day|Month|Year|[1-9][0-9]* (Seconds|Minutes|Hours|Days|Months|Years)))?$`)

func unit(id, column string) rowRule {
	return of(id, column+" SHOULD conform to UnitFormat requirements.", needed(column), func(r *record) bool {
		return !r.null(column) && !unitFormat.MatchString(r.text(column))
	})
}

// properties tells whether any property of SkuPriceDetails is as asked.
func properties(is func(key string, value any) bool) func(r *record) bool {
	return func(r *record) bool {
		if r.null("SkuPriceDetails") {
			return false
		}
		object, err := parseObject(r.text("SkuPriceDetails"))
		if err != nil {
			return false
		}
		for key, value := range object {
			if is(key, value) {
				return true
			}
		}
		return false
	}
}

func notNumeric(value any) bool {
	_, is := value.(float64)
	return !is
}

func notText(value any) bool {
	_, is := value.(string)
	return !is
}

// rowRules are all of them.
var rowRules = slices.Concat(
	required("ContractedUnitPrice", "ContractedUnitPrice-C-005-C", "ContractedUnitPrice-C-006-C"),
	required("ListUnitPrice", "ListUnitPrice-C-004-C", "ListUnitPrice-C-005-C"),
	required("PricingCategory", "PricingCategory-C-003-C", "PricingCategory-C-004-C"),
	required("PricingQuantity", "PricingQuantity-C-004-C", "PricingQuantity-C-005-C"),
	required("SkuId", "SkuId-C-004-C", "SkuId-C-005-C"),
	required("SkuPriceId", "SkuPriceId-C-004-C", "SkuPriceId-C-005-C"),
	follows("PricingUnit", "PricingQuantity", "PricingUnit-C-005-C", "PricingUnit-C-006-C"),
	follows("ConsumedUnit", "ConsumedQuantity", "ConsumedUnit-C-005-C", "ConsumedUnit-C-006-C"),
	follows("SubAccountName", "SubAccountId", "SubAccountName-C-004-C", "SubAccountName-C-005-C"),
	follows("SubAccountType", "SubAccountId", "SubAccountType-C-004-C", "SubAccountType-C-005-C"),
	follows("ResourceType", "ResourceId", "ResourceType-C-004-C", "ResourceType-C-005-C"),
	follows("ResourceName", "ResourceId", "ResourceName-C-004-C", ""),
	follows("RegionName", "RegionId", "RegionName-C-004-C", "RegionName-C-005-C"),
	follows("SkuMeter", "SkuId", "SkuMeter-C-004-C", ""),
	follows("SkuPriceDetails", "SkuPriceId", "SkuPriceDetails-C-004-C", ""),
	products("ContractedUnitPrice", "ContractedCost", "ContractedUnitPrice-C-009-C", "ContractedUnitPrice-C-011-C"),
	products("ListUnitPrice", "ListCost", "ListUnitPrice-C-008-M", "ListUnitPrice-C-010-C"),
	[]rowRule{
		billed("ContractedCost-C-008-C", "ContractedCost", "ContractedUnitPrice"),
		billed("ListCost-C-008-C", "ListCost", "ListUnitPrice"),
		billed("EffectiveCost-C-010-C", "EffectiveCost"),
		ends("BillingPeriodEnd-C-004-M", "BillingPeriod"),
		ends("ChargePeriodEnd-C-004-M", "ChargePeriod"),
		unit("PricingUnit-C-003-O", "PricingUnit"),
		unit("ConsumedUnit-C-003-O", "ConsumedUnit"),
		of("BillingCurrency-C-006-M", "BillingCurrency MUST be expressed in national currency.", needed("BillingCurrency"), func(r *record) bool {
			return !prices.KnownCurrency(r.text("BillingCurrency"))
		}),
		of("BilledCost-C-005-C", "BilledCost MUST be 0 for charges where payments are received by a third party.", needed("BilledCost", "ProviderName", "InvoiceIssuerName"), func(r *record) bool {
			return r.text("ProviderName") != r.text("InvoiceIssuerName") && !r.number("BilledCost").IsZero()
		}).of12(),
		of("ChargeClass-C-005-C", `ChargeClass MUST be "Correction" when ChargeClass is not null.`, needed("ChargeClass"), func(r *record) bool {
			return !r.null("ChargeClass") && !r.correction()
		}),
		of("ChargeFrequency-C-004-C", `ChargeFrequency MUST NOT be "Usage-Based" when ChargeCategory is "Purchase".`, needed("ChargeFrequency", "ChargeCategory"), func(r *record) bool {
			return r.is("ChargeFrequency", "Usage-Based") && r.is("ChargeCategory", "Purchase")
		}),
		of("ConsumedQuantity-C-004-C", `ConsumedQuantity MUST be null when ChargeCategory is not "Usage".`, needed("ConsumedQuantity", "ChargeCategory"), func(r *record) bool {
			return !r.is("ChargeCategory", "Usage") && !r.null("ConsumedQuantity")
		}),
		of("ConsumedQuantity-C-006-C", `ConsumedQuantity MUST NOT be null when ChargeCategory is "Usage" and ChargeClass is not "Correction".`, needed("ConsumedQuantity", "ChargeCategory", "ChargeClass"), func(r *record) bool {
			return r.is("ChargeCategory", "Usage") && !r.correction() && r.null("ConsumedQuantity")
		}),
		of("CapacityReservationId-C-005-C", "CapacityReservationId MUST NOT be null when a charge represents the unused portion of a capacity reservation.", needed("CapacityReservationId", "CapacityReservationStatus"), func(r *record) bool {
			return r.null("CapacityReservationId") && r.is("CapacityReservationStatus", "Unused")
		}),
		of("CapacityReservationStatus-C-003-C", "CapacityReservationStatus MUST be null when CapacityReservationId is null.", needed("CapacityReservationStatus", "CapacityReservationId"), func(r *record) bool {
			return r.null("CapacityReservationId") && r.is("CapacityReservationStatus", "Used")
		}),
		of("CapacityReservationStatus-C-004-C", `CapacityReservationStatus MUST NOT be null when CapacityReservationId is not null and ChargeCategory is "Usage".`, needed("CapacityReservationStatus", "CapacityReservationId", "ChargeCategory"), func(r *record) bool {
			return r.is("ChargeCategory", "Usage") && !r.null("CapacityReservationId") && r.null("CapacityReservationStatus")
		}),
		of("ResourceName-C-006-C", "ResourceName MUST NOT duplicate ResourceId.", needed("ResourceName", "ResourceId"), func(r *record) bool {
			return !r.null("ResourceName") && r.text("ResourceName") == r.text("ResourceId")
		}),
		of("ServiceSubcategory-C-004-M", "ServiceSubcategory MUST have one and only one parent ServiceCategory.", needed("ServiceSubcategory", "ServiceCategory"), func(r *record) bool {
			return !slices.Contains(subcategories[r.text("ServiceCategory")], r.text("ServiceSubcategory"))
		}),
		of("SkuPriceDetails-C-017-C", `Property key MUST begin with the string "x_" unless it is a FOCUS-defined property.`, needed("SkuPriceDetails"), properties(func(key string, _ any) bool {
			_, defined := skuProperties[key]
			return !defined && !isCustom(key)
		})),
		of("SkuPriceDetails-C-021-M", "Property value MUST be of the type specified for that property.", needed("SkuPriceDetails"), properties(func(key string, value any) bool {
			numeric, defined := skuProperties[key]
			return defined && (numeric && notNumeric(value) || !numeric && notText(value))
		})),
		of("PricingQuantity-1.4-without-SkuPriceId", "PricingQuantity MUST be null when SkuPriceId is null.", needed("PricingQuantity", "SkuPriceId"), func(r *record) bool {
			return r.null("SkuPriceId") && !r.null("PricingQuantity")
		}).of14(),
	},
)

// Rules are all that a version's files are checked against.
func Rules(version string) []Rule {
	rules := []Rule{ruleWidth}
	for _, rule := range headerRules {
		rules = append(rules, rule.Rule)
	}
	for _, c := range columns {
		if c.in(version) {
			rules = append(rules, c.rules()...)
		}
	}
	rules = append(rules, attributeRules...)
	for _, rule := range rowRules {
		if rule.only == "" || rule.only == version {
			rules = append(rules, rule.Rule)
		}
	}
	return append(rules, crossRules...)
}
