package prices

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/shopspring/decimal"
)

// Kinds of facts, in their order.
const (
	KindBook    = "book"    // currency, minor unit, zone
	KindSKU     = "sku"     // a display name
	KindVersion = "version" // terms of all tenants
	KindModel   = "model"
	KindTenant  = "tenant"
)

// Key identifies a fact in a book: "gpu_hour" of a model, "profiles.1g.10gb", "tiers.above 1000",
// "reserved.MODEL.gpus" of a tenant. Name is the SKU's, the model's or the tenant's; empty for kinds without names.
type Key struct{ Kind, Name, Item string }

// Fact is one value in a book: a decimal in its shortest form, or a text.
type Fact struct {
	Key
	Value string
}

// General are the facts outside versions: the currency, zones, SKUs.
func (b *Book) General() []Fact {
	facts := []Fact{
		{Key{KindBook, "", "currency"}, b.Currency},
		{Key{KindBook, "", "minor_unit"}, strconv.Itoa(int(b.MinorUnit))},
		{Key{KindBook, "", "time_zone"}, b.Zone.String()},
	}
	for _, sku := range sortedSKUs(b.SKUs) {
		if sku.Profile != "" {
			facts = append(facts, Fact{Key{KindSKU, sku.Name, "profile"}, sku.Profile})
		} else {
			facts = append(facts, Fact{Key{KindSKU, sku.Name, "gpus"}, strconv.Itoa(sku.GPUs)})
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(b.TenantZones)) {
		facts = append(facts, Fact{Key{KindTenant, tenant, "time_zone"}, b.TenantZones[tenant].String()})
	}
	return facts
}

// Facts are all prices and terms of a version: the general ones, then by model, then by tenant. Terms that are zero
// and so without effect are left out, except a minimum, which makes an invoice.
func (v *Version) Facts() []Fact {
	facts := []Fact{
		{Key{KindVersion, "", "kwh"}, v.KWh.String()},
		{Key{KindVersion, "", "idle_surcharge"}, v.IdleSurcharge.String()},
		{Key{KindVersion, "", "distribution"}, v.distribution()},
	}
	for _, name := range slices.Sorted(maps.Keys(v.Models)) {
		facts = append(facts, v.Models[name].facts(name)...)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Tenants)) {
		facts = append(facts, v.Tenants[name].facts(name)...)
	}
	return facts
}

func (v *Version) distribution() string {
	if v.Proportional {
		return "proportional"
	}
	return "none"
}

func (m Model) facts(name string) []Fact {
	facts := []Fact{{Key{KindModel, name, "gpu_hour"}, m.GPUHour.String()}}
	for _, profile := range slices.Sorted(maps.Keys(m.Profiles)) {
		facts = append(facts, Fact{Key{KindModel, name, "profiles." + profile}, m.Profiles[profile].String()})
	}
	for _, tier := range m.Tiers {
		facts = append(facts, Fact{Key{KindModel, name, "tiers.above " + tier.Above.String()}, tier.GPUHour.String()})
	}
	return facts
}

func (t Terms) facts(name string) []Fact {
	var facts []Fact
	add := func(item string, value decimal.Decimal, stated bool) {
		if stated {
			facts = append(facts, Fact{Key{KindTenant, name, item}, value.String()})
		}
	}
	add("discount", t.Discount, !t.Discount.IsZero())
	add("fixed_discount", t.FixedDiscount, !t.FixedDiscount.IsZero())
	add("minimum", t.Minimum, t.HasMinimum)
	for _, r := range sortedReservations(t.Reserved) {
		add("reserved."+r.Model+".gpus", r.GPUs, true)
		add("reserved."+r.Model+".unused_gpu_hour", r.UnusedGPUHour, true)
	}
	return facts
}

func sortedSKUs(skus []SKU) []SKU {
	return slices.SortedFunc(slices.Values(skus), func(a, b SKU) int { return cmp.Compare(a.Name, b.Name) })
}

func sortedReservations(reserved []Reservation) []Reservation {
	return slices.SortedFunc(slices.Values(reserved), func(a, b Reservation) int { return cmp.Compare(a.Model, b.Model) })
}
