package prices

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // months must not depend on the host's zone files (C8)

	"github.com/shopspring/decimal"
	"go.yaml.in/yaml/v3"

	"github.com/gputally/gputally/internal/config"
)

// Load reads a price book from a YAML file; errors as in Parse.
func Load(path string) (*Book, error) {
	data, err := config.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load price book: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a price book; name is the file's name in errors, each of which is "name:line: key: what is wrong with
// which value". All errors of the file are joined.
func Parse(name string, data []byte) (*Book, error) {
	hash := sha256.Sum256(data)
	file := bookFile{Book: Book{
		Name: name, Hash: hex.EncodeToString(hash[:]), Text: string(data), MinorUnit: unstated, Zone: time.UTC,
		TenantZones: map[string]*time.Location{},
	}}
	if err := config.DecodeWith(name, data, &file, readers(), file.check); err != nil {
		return nil, fmt.Errorf("parse price book: %w", err)
	}
	return &file.Book, nil
}

// bookFile is a price book as decoded from its file.
type bookFile struct {
	Book    `yaml:",inline"`
	Tenants map[string]struct {
		TimeZone *time.Location `yaml:"time_zone,required"`
	} `yaml:"tenants"`
	NamedSKUs map[string]SKU `yaml:"skus"`
}

// unstated is the minor unit of a file without one.
const unstated = -1

// maxNames bounds the number of names in an error.
const maxNames = 20

// digits matches a decimal in a book: up to a trillion, in trillionths.
var digits = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)

// wantDigits describes digits in errors.
const wantDigits = "a non-negative decimal: up to 12 digits, with an optional point and up to 12 more"

// readers decode the values of a book.
func readers() config.Readers {
	zones := &zones{found: map[string]*time.Location{}}
	return config.Readers{
		reflect.TypeFor[string]():          reader(text),
		reflect.TypeFor[decimal.Decimal](): reader(number),
		reflect.TypeFor[time.Time]():       reader(hour),
		reflect.TypeFor[bool]():            reader(proportional),
		reflect.TypeFor[*time.Location]():  reader(zones.read),
	}
}

func reader[T any](read func(n *yaml.Node) (T, error)) func(*yaml.Node, any) error {
	return func(n *yaml.Node, into any) (err error) {
		*into.(*T), err = read(n)
		return err
	}
}

// text decodes a scalar that isn't empty.
func text(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return "", fmt.Errorf("%s is not a text", config.Describe(n))
	}
	return n.Value, nil
}

// number decodes a quoted non-negative decimal. Unquoted numbers are refused: YAML would read 2.10 as a float, and
// 010 as eight.
func number(n *yaml.Node) (decimal.Decimal, error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return decimal.Zero, fmt.Errorf("%s is not a number", config.Describe(n))
	case n.Tag != "!!str":
		return decimal.Zero, fmt.Errorf("%s must be quoted, such as \"2.49\"", config.Describe(n))
	case !digits.MatchString(n.Value):
		return decimal.Zero, fmt.Errorf("%s is not "+wantDigits, config.Describe(n))
	}
	return decimal.RequireFromString(n.Value), nil
}

// hour decodes the start of a UTC hour.
func hour(n *yaml.Node) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		return at, fmt.Errorf("%s is not an RFC 3339 time, such as 2026-01-01T00:00:00Z", config.Describe(n))
	case !at.Equal(at.Truncate(time.Hour)):
		return at, fmt.Errorf("%s is not the start of a UTC hour", config.Describe(n))
	}
	return at.UTC(), nil
}

// proportional decodes a version's distribution.
func proportional(n *yaml.Node) (bool, error) {
	if n.Value != "none" && n.Value != "proportional" {
		return false, fmt.Errorf("%s is neither none nor proportional", config.Describe(n))
	}
	return n.Value == "proportional", nil
}

// zones caches looked-up zones, since the lookup takes time.
type zones struct {
	found   map[string]*time.Location
	unknown int
}

func (z *zones) read(n *yaml.Node) (*time.Location, error) {
	name, err := text(n)
	if err != nil || z.found[name] != nil {
		return z.found[name], err
	}
	if z.unknown == maxNames {
		return time.UTC, nil // the book is refused already
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		z.unknown++
		return nil, fmt.Errorf("%s is not a time zone of the IANA database, such as Europe/Berlin", config.Describe(n))
	}
	z.found[name] = zone
	return zone, nil
}

// check checks the values of a book against each other, and puts it into its normal form: versions by their hour,
// tiers by their threshold.
func (b *bookFile) check(at config.Place) {
	digits, ok := minorUnit(b.Currency)
	if !ok && b.Currency != "" {
		at.At("currency").Faultf("%q is not an active ISO 4217 currency code, such as USD", b.Currency)
	}
	switch {
	case b.MinorUnit == unstated && !at.Has("minor_unit"):
		b.MinorUnit = digits
	case b.MinorUnit < 0 && at.Sound() || b.MinorUnit > 9: // 9 places are the precision of distributed amounts
		at.At("minor_unit").Faultf("%d is not an integer in 0…9", b.MinorUnit)
	}
	for tenant, of := range b.Tenants {
		b.TenantZones[tenant] = of.TimeZone
	}
	if at.Has("skus") {
		b.checkSKUs(at.At("skus"))
	}
	b.checkVersions(at.At("versions"))
}

func (b *bookFile) checkSKUs(at config.Place) {
	names := map[SKU]string{}
	for _, name := range at.Keys() {
		sku := b.NamedSKUs[name]
		switch other, twice := names[sku]; {
		case sku.GPUs < 1 && at.At(name).Has("gpus") && at.Sound():
			at.At(name, "gpus").Faultf("%d is not a whole number of GPUs", sku.GPUs)
		case (sku.Profile == "") == (sku.GPUs == 0):
			at.At(name).Faultf("a SKU names either a profile or a number of gpus")
		case twice:
			at.At(name).Faultf("is the same as SKU %q", other)
		}
		names[sku] = name
		sku.Name = name
		b.SKUs = append(b.SKUs, sku)
	}
}

func (b *bookFile) checkVersions(at config.Place) {
	if len(b.Versions) == 0 && at.Sound() {
		at.Faultf("a book needs at least one version")
	}
	seen := map[int64]int{} // the index of a version, by its hour
	for i := range b.Versions {
		version, unix := &b.Versions[i], b.Versions[i].Effective.Unix()
		if other, twice := seen[unix]; twice && !version.Effective.IsZero() {
			at.At(i, "effective").Faultf("two versions at %s, the other in line %d",
				version.Effective.Format(time.RFC3339), at.At(other).Line())
		}
		seen[unix] = i
		version.check(at.At(i))
	}
	slices.SortStableFunc(b.Versions, func(a, b Version) int { return a.Effective.Compare(b.Effective) })
}

func (v *Version) check(at config.Place) {
	checkShare(at.At("idle_surcharge"), v.IdleSurcharge)
	for name, model := range v.Models {
		model.checkTiers(at.At("models", name, "tiers"))
	}
	for name, terms := range v.Tenants {
		of := at.At("tenants", name)
		checkShare(of.At("discount"), terms.Discount)
		terms.HasMinimum = of.Has("minimum")
		v.Tenants[name] = terms
		terms.checkReserved(of.At("reserved"), v.Models)
	}
}

// checkShare requires a number in 0…1.
func checkShare(at config.Place, share decimal.Decimal) {
	if share.GreaterThan(decimal.NewFromInt(1)) {
		at.Faultf("%q is more than 1: it is a share, a tenth is \"0.10\"", share.String())
	}
}

func (m Model) checkTiers(at config.Place) {
	seen := map[string]bool{}
	for i, tier := range m.Tiers {
		if seen[tier.Above.String()] {
			at.At(i, "above").Faultf("two tiers above %s GPU-hours", tier.Above.String())
		}
		seen[tier.Above.String()] = true
	}
	slices.SortStableFunc(m.Tiers, func(a, b Tier) int { return a.Above.Cmp(b.Above) })
}

func (t Terms) checkReserved(at config.Place, models map[string]Model) {
	seen := map[string]bool{}
	for i, r := range t.Reserved {
		if _, priced := models[r.Model]; !priced && r.Model != "" {
			at.At(i, "model").Faultf("%q has no rate in this version (models: %s)", r.Model, modelNames(models))
		}
		if seen[r.Model] {
			at.At(i, "model").Faultf("%q is reserved twice by one tenant", r.Model)
		}
		seen[r.Model] = true
	}
}

// modelNames lists them, or their number if there are many.
func modelNames(models map[string]Model) string {
	if len(models) > maxNames {
		return fmt.Sprintf("%d of them", len(models))
	}
	return strings.Join(slices.Sorted(maps.Keys(models)), ", ")
}
