package prices

import (
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/shopspring/decimal"
)

// Book is a price book: one currency, and versions by effective hour. A file is decoded into these types, and its
// normal form is made of them.
type Book struct {
	// Name is the book's origin, for errors.
	Name string `yaml:"-"`
	// Hash is the SHA-256 of the file, in hex; invoices refer to it (C8).
	Hash string `yaml:"-"`
	// Text is the file's content.
	Text string `yaml:"-"`
	// Currency is the ISO 4217 code.
	Currency string `yaml:"currency,required"`
	// MinorUnit is the number of decimal places an invoice is rounded to.
	MinorUnit int32 `yaml:"minor_unit"`
	// Zone is the tenants' default zone and the platform's own.
	Zone *time.Location `yaml:"time_zone"`
	// TenantZones are the zones of tenants that have one of their own.
	TenantZones map[string]*time.Location `yaml:"-"`
	// SKUs are display names on lines, as in the file; a SKU has no price of its own.
	SKUs []SKU `yaml:"-"`
	// Versions are sorted by Effective, at least one.
	Versions []Version `yaml:"versions,required"`
}

// SKU is a display name for a MIG profile or for a count of whole GPUs;
// exactly one of Profile and GPUs is set.
type SKU struct {
	Name    string `json:"name"              yaml:"-"`
	Profile string `json:"profile,omitempty"`
	GPUs    int    `json:"gpus,omitempty"`
}

// Version is the part of a book that is in force from one UTC hour until the next version's.
type Version struct {
	// Effective is the first hour priced by this version, UTC.
	Effective time.Time `yaml:"effective,required"`
	// Models are the list rates by the GPU's model name.
	Models map[string]Model `yaml:"models,required"`
	// KWh is the price of a kilowatt-hour.
	KWh decimal.Decimal `yaml:"kwh"`
	// IdleSurcharge is the share, 0…1, of the list value of idle time.
	IdleSurcharge decimal.Decimal
	// Proportional distributes free and stranded time to the owners.
	Proportional bool `yaml:"distribution"`
	// Tenants are the agreed terms by tenant.
	Tenants map[string]Terms
}

// Model is the price of one GPU model.
type Model struct {
	// GPUHour is the list rate of an hour of a whole GPU.
	GPUHour decimal.Decimal `json:"gpu_hour" yaml:"gpu_hour,required"`
	// Profiles are the prices of an hour of a MIG profile; others are priced by slices.
	Profiles map[string]decimal.Decimal `json:"profiles,omitempty"`
	// Tiers are sorted by Above, ascending.
	Tiers []Tier `json:"tiers,omitempty"`
}

// Tier is the rate of the month's GPU-hours above a threshold.
type Tier struct {
	// Above is the threshold in GPU-hours per tenant, month and model.
	Above decimal.Decimal `json:"above" yaml:"above,required"`
	// GPUHour is the rate beyond it.
	GPUHour decimal.Decimal `json:"gpu_hour" yaml:"gpu_hour,required"`
}

// Terms are the agreed terms of one tenant.
type Terms struct {
	// Discount is a share, 0…1, of list, profile and tier together.
	Discount decimal.Decimal
	// FixedDiscount is an amount per month.
	FixedDiscount decimal.Decimal
	// Minimum is an amount per month; HasMinimum distinguishes zero from none.
	Minimum    decimal.Decimal
	HasMinimum bool `yaml:"-"`
	// Reserved has at most one entry per model.
	Reserved []Reservation
}

// Reservation is capacity kept for a tenant.
type Reservation struct {
	Model string `json:"model" yaml:"model,required"`
	// GPUs is the number of whole GPUs, possibly with a fraction.
	GPUs decimal.Decimal `json:"gpus" yaml:"gpus,required"`
	// UnusedGPUHour is the price of an hour of a reserved GPU not held.
	UnusedGPUHour decimal.Decimal `json:"unused_gpu_hour" yaml:"unused_gpu_hour,required"`
}

// At is the index in Versions of the one in force at a UTC hour; -1 before the first version.
func (b *Book) At(hour time.Time) int {
	after := sort.Search(len(b.Versions), func(i int) bool { return b.Versions[i].Effective.After(hour) })
	return after - 1
}

// Zones are the platform's zone and those of tenants with their own; a zone may occur several times.
func (b *Book) Zones() []*time.Location {
	return slices.AppendSeq([]*time.Location{b.Zone}, maps.Values(b.TenantZones))
}

// Location is the zone of a tenant's months: its own, else the book's. The platform (an empty tenant) has the book's.
func (b *Book) Location(tenant string) *time.Location {
	if zone, ok := b.TenantZones[tenant]; ok {
		return zone
	}
	return b.Zone
}

// SKUName is the display name of a profile, or of one whole GPU if profile is empty; empty if the book has none.
func (b *Book) SKUName(profile string) string {
	for _, sku := range b.SKUs {
		if profile != "" && sku.Profile == profile || profile == "" && sku.GPUs == 1 {
			return sku.Name
		}
	}
	return ""
}
