package prices

import (
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/shopspring/decimal"
)

// Book is a price book: one currency, and versions by effective hour.
type Book struct {
	// Name says where the book came from, for error messages.
	Name string
	// Hash is the SHA-256 of the file, in hex; invoices name it (C8).
	Hash string
	// Text is the file.
	Text string
	// Currency is the ISO 4217 code.
	Currency string
	// MinorUnit is the number of decimal places an invoice is rounded to.
	MinorUnit int32
	// Zone is the tenants' default zone and the platform's own.
	Zone *time.Location
	// TenantZones are the zones of tenants that have one of their own.
	TenantZones map[string]*time.Location
	// SKUs name what is shown on lines; a SKU has no price of its own.
	SKUs []SKU
	// Versions are sorted by Effective, at least one.
	Versions []Version
}

// SKU is a display name for a MIG profile or for a count of whole GPUs;
// exactly one of Profile and GPUs is set.
type SKU struct {
	Name    string
	Profile string
	GPUs    int
}

// Version is the part of a book in force from one UTC hour to the next version's.
type Version struct {
	// Effective is the first hour priced by this version, UTC.
	Effective time.Time
	// Models are the list rates by the GPU's model name.
	Models map[string]Model
	// KWh is the price of a kilowatt-hour.
	KWh decimal.Decimal
	// IdleSurcharge is the share, 0…1, of the list value of idle time.
	IdleSurcharge decimal.Decimal
	// Proportional distribution shares free and stranded time over the owners.
	Proportional bool
	// Tenants are the agreed terms by tenant.
	Tenants map[string]Terms
}

// Model is the price of one GPU model.
type Model struct {
	// GPUHour is the list rate of an hour of a whole GPU.
	GPUHour decimal.Decimal
	// Profiles prices an hour of a MIG profile; one not named is priced by slices.
	Profiles map[string]decimal.Decimal
	// Tiers are sorted by Above, ascending.
	Tiers []Tier
}

// Tier is the rate of the month's GPU-hours above a threshold.
type Tier struct {
	// Above is the threshold in GPU-hours per tenant, month and model.
	Above decimal.Decimal
	// GPUHour is the rate beyond it.
	GPUHour decimal.Decimal
}

// Terms are what was agreed with one tenant.
type Terms struct {
	// Discount is a share, 0…1, of list, profile and tier together.
	Discount decimal.Decimal
	// FixedDiscount is an amount per month.
	FixedDiscount decimal.Decimal
	// Minimum is an amount per month; HasMinimum tells a stated zero from none.
	Minimum    decimal.Decimal
	HasMinimum bool
	// Reserved has at most one entry per model.
	Reserved []Reservation
}

// Reservation is capacity kept for a tenant.
type Reservation struct {
	Model string
	// GPUs is the number of whole GPUs, possibly with a fraction.
	GPUs decimal.Decimal
	// UnusedGPUHour is the price of an hour of a reserved GPU not held.
	UnusedGPUHour decimal.Decimal
}

// At is the index in Versions of the one in force at a UTC hour; -1 when the
// hour lies before the first version.
func (b *Book) At(hour time.Time) int {
	after := sort.Search(len(b.Versions), func(i int) bool { return b.Versions[i].Effective.After(hour) })
	return after - 1
}

// Zones are the platform's zone and those of tenants that have one of their own; one
// may be there several times.
func (b *Book) Zones() []*time.Location {
	return slices.AppendSeq([]*time.Location{b.Zone}, maps.Values(b.TenantZones))
}

// Location is the zone of a tenant's months: its own, else the book's. The
// platform (an empty tenant) has the book's.
func (b *Book) Location(tenant string) *time.Location {
	if zone, ok := b.TenantZones[tenant]; ok {
		return zone
	}
	return b.Zone
}

// SKUName is the display name of a profile, or of one whole GPU when profile
// is empty; empty when the book names none.
func (b *Book) SKUName(profile string) string {
	for _, sku := range b.SKUs {
		if profile != "" && sku.Profile == profile || profile == "" && sku.GPUs == 1 {
			return sku.Name
		}
	}
	return ""
}
