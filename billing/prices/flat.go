package prices

import (
	"fmt"
	"maps"
	"time"

	"github.com/shopspring/decimal"
)

// flatStart is before any supported month.
var flatStart = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)

// Flat returns a book with list rates only, by model, always in force: to compute what the same hours would cost at a
// cloud's price or one's own cost per GPU-hour, without tenants' terms. Zones and currency are those of like; if it
// is nil, UTC and the given currency, which must be an active one.
func Flat(name, currency string, like *Book, rates map[string]decimal.Decimal) (*Book, error) {
	book := &Book{Name: name, Currency: currency, Zone: time.UTC, TenantZones: map[string]*time.Location{}}
	if like != nil {
		book.Currency, book.MinorUnit = like.Currency, like.MinorUnit
		book.Zone, book.TenantZones = like.Zone, maps.Clone(like.TenantZones)
	} else if digits, ok := minorUnit(currency); ok {
		book.MinorUnit = digits
	} else {
		return nil, fmt.Errorf("make price book %s: %q is not an active ISO 4217 currency code, such as USD", name, currency)
	}
	version := Version{Effective: flatStart, Models: map[string]Model{}, Tenants: map[string]Terms{}}
	for model, rate := range rates {
		version.Models[model] = Model{GPUHour: rate, Profiles: map[string]decimal.Decimal{}}
	}
	book.Versions = []Version{version}
	return book, nil
}

// ParseNumber parses a price as in a book, without the quotes: up to 12 digits, with an optional point and up to 12
// more.
func ParseNumber(text string) (decimal.Decimal, error) {
	if !digits.MatchString(text) {
		return decimal.Zero, fmt.Errorf("%.60q is not "+wantDigits, text)
	}
	return decimal.RequireFromString(text), nil
}
