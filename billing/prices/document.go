package prices

import (
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Document is a book in its normal form: versions by their hour, everything else by name, numbers as decimals in
// their shortest form. Two equivalent files have the same document except for the name and the SHA-256 of the file.
type Document struct {
	Name      string            `json:"name"`
	SHA256    string            `json:"sha256"`
	Currency  string            `json:"currency"`
	MinorUnit int32             `json:"minor_unit"`
	TimeZone  string            `json:"time_zone"`
	TimeZones map[string]string `json:"tenant_time_zones,omitempty"`
	SKUs      []SKU             `json:"skus,omitempty"`
	Versions  []VersionDocument `json:"versions"`
}

// VersionDocument is in force from Effective until Until, which is zero for the last version.
type VersionDocument struct {
	Effective     time.Time        `json:"effective"`
	Until         time.Time        `json:"until,omitzero"`
	KWh           decimal.Decimal  `json:"kwh"`
	IdleSurcharge decimal.Decimal  `json:"idle_surcharge"`
	Distribution  string           `json:"distribution"`
	Models        []ModelDocument  `json:"models"`
	Tenants       []TenantDocument `json:"tenants,omitempty"`
}

// ModelDocument is a model with its name.
type ModelDocument struct {
	Name string `json:"model"`
	Model
}

// TenantDocument are a tenant's terms; Minimum is nil if there is none.
type TenantDocument struct {
	Tenant        string           `json:"tenant"`
	Discount      decimal.Decimal  `json:"discount"`
	FixedDiscount decimal.Decimal  `json:"fixed_discount"`
	Minimum       *decimal.Decimal `json:"minimum,omitempty"`
	Reserved      []Reservation    `json:"reserved,omitempty"`
}

// Document returns the book in its normal form.
func (b *Book) Document() Document {
	d := Document{
		Name: b.Name, SHA256: b.Hash, Currency: b.Currency, MinorUnit: b.MinorUnit,
		TimeZone: b.Zone.String(), TimeZones: map[string]string{}, SKUs: sortedSKUs(b.SKUs),
	}
	for tenant, zone := range b.TenantZones {
		d.TimeZones[tenant] = zone.String()
	}
	for i := range b.Versions {
		version := b.Versions[i].document()
		version.Until = b.Until(i)
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
		Effective: v.Effective, KWh: v.KWh, IdleSurcharge: v.IdleSurcharge, Distribution: v.distribution(),
		Models: []ModelDocument{},
	}
	for _, name := range slices.Sorted(maps.Keys(v.Models)) {
		d.Models = append(d.Models, ModelDocument{name, v.Models[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(v.Tenants)) {
		t := v.Tenants[name]
		of := TenantDocument{
			Tenant: name, Discount: t.Discount, FixedDiscount: t.FixedDiscount,
			Reserved: sortedReservations(t.Reserved),
		}
		if t.HasMinimum {
			of.Minimum = &t.Minimum
		}
		d.Tenants = append(d.Tenants, of)
	}
	return d
}
