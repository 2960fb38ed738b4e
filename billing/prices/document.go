package prices

import (
	"maps"
	"slices"
	"time"
)

// Document is a book in its normal form: versions by their hour, everything
// else by name, numbers as decimals in their shortest form. Two files that say
// the same have the same document but for the name and the SHA-256 of the file.
type Document struct {
	Name      string            `json:"name"`
	SHA256    string            `json:"sha256"`
	Currency  string            `json:"currency"`
	MinorUnit int32             `json:"minor_unit"`
	TimeZone  string            `json:"time_zone"`
	TimeZones map[string]string `json:"tenant_time_zones,omitempty"`
	SKUs      []SKUDocument     `json:"skus,omitempty"`
	Versions  []VersionDocument `json:"versions"`
}

// SKUDocument is a display name of a profile, or of a number of GPUs.
type SKUDocument struct {
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"`
	GPUs    int    `json:"gpus,omitempty"`
}

// VersionDocument is what is in force from Effective up to Until, which is
// empty for the last version. Times are RFC 3339 in UTC.
type VersionDocument struct {
	Effective     string           `json:"effective"`
	Until         string           `json:"until,omitempty"`
	KWh           string           `json:"kwh"`
	IdleSurcharge string           `json:"idle_surcharge"`
	Distribution  string           `json:"distribution"`
	Models        []ModelDocument  `json:"models"`
	Tenants       []TenantDocument `json:"tenants,omitempty"`
}

// ModelDocument is a model's rate, prices of profiles, and tiers.
type ModelDocument struct {
	Model    string            `json:"model"`
	GPUHour  string            `json:"gpu_hour"`
	Profiles map[string]string `json:"profiles,omitempty"`
	Tiers    []TierDocument    `json:"tiers,omitempty"`
}

// TierDocument is the rate above a number of GPU-hours.
type TierDocument struct {
	Above   string `json:"above"`
	GPUHour string `json:"gpu_hour"`
}

// TenantDocument are a tenant's terms; Minimum is empty where there is none.
type TenantDocument struct {
	Tenant        string                `json:"tenant"`
	Discount      string                `json:"discount"`
	FixedDiscount string                `json:"fixed_discount"`
	Minimum       string                `json:"minimum,omitempty"`
	Reserved      []ReservationDocument `json:"reserved,omitempty"`
}

// ReservationDocument is capacity kept for a tenant.
type ReservationDocument struct {
	Model         string `json:"model"`
	GPUs          string `json:"gpus"`
	UnusedGPUHour string `json:"unused_gpu_hour"`
}

// Document is the book in its normal form.
func (b *Book) Document() Document {
	d := Document{
		Name: b.Name, SHA256: b.Hash, Currency: b.Currency, MinorUnit: b.MinorUnit,
		TimeZone: b.Zone.String(), TimeZones: map[string]string{},
	}
	for tenant, zone := range b.TenantZones {
		d.TimeZones[tenant] = zone.String()
	}
	for _, sku := range sortedSKUs(b.SKUs) {
		d.SKUs = append(d.SKUs, SKUDocument(sku))
	}
	for i := range b.Versions {
		version := b.Versions[i].document()
		if until := b.Until(i); !until.IsZero() {
			version.Until = until.Format(time.RFC3339)
		}
		d.Versions = append(d.Versions, version)
	}
	return d
}

// Until is the hour from which version i is no longer in force; zero for the last.
func (b *Book) Until(i int) time.Time {
	if i+1 < len(b.Versions) {
		return b.Versions[i+1].Effective
	}
	return time.Time{}
}

func (v *Version) document() VersionDocument {
	d := VersionDocument{
		Effective: v.Effective.Format(time.RFC3339), KWh: v.KWh.String(),
		IdleSurcharge: v.IdleSurcharge.String(), Distribution: v.distribution(), Models: []ModelDocument{},
	}
	for _, name := range slices.Sorted(maps.Keys(v.Models)) {
		from := v.Models[name]
		model := ModelDocument{Model: name, GPUHour: from.GPUHour.String(), Profiles: map[string]string{}}
		for profile, price := range from.Profiles {
			model.Profiles[profile] = price.String()
		}
		for _, tier := range from.Tiers {
			model.Tiers = append(model.Tiers, TierDocument{Above: tier.Above.String(), GPUHour: tier.GPUHour.String()})
		}
		d.Models = append(d.Models, model)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Tenants)) {
		d.Tenants = append(d.Tenants, v.Tenants[name].document(name))
	}
	return d
}

func (t Terms) document(name string) TenantDocument {
	d := TenantDocument{Tenant: name, Discount: t.Discount.String(), FixedDiscount: t.FixedDiscount.String()}
	if t.HasMinimum {
		d.Minimum = t.Minimum.String()
	}
	for _, r := range sortedReservations(t.Reserved) {
		d.Reserved = append(d.Reserved, ReservationDocument{
			Model: r.Model, GPUs: r.GPUs.String(), UnusedGPUHour: r.UnusedGPUHour.String(),
		})
	}
	return d
}
