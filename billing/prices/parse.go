package prices

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// Parse reads a price book; name stands for the file in errors, each of which
// is "name:line: key: what is wrong with which value". All errors of the file
// are joined into one.
func Parse(name string, data []byte) (*Book, error) {
	root, err := document(name, data)
	if err != nil {
		return nil, fmt.Errorf("parse price book: %w", err)
	}
	hash := sha256.Sum256(data)
	p := &parser{walker: walker{name: name}, locations: map[string]*time.Location{}}
	book := p.book(root)
	book.Name, book.Hash, book.Text = name, hex.EncodeToString(hash[:]), string(data)
	if err := p.err(); err != nil {
		return nil, fmt.Errorf("parse price book: %w", err)
	}
	return book, nil
}

// document is the root of the file's only YAML document (config.Document).
func document(name string, data []byte) (*yaml.Node, error) {
	root, err := config.Document(name, data)
	if err == nil && root == nil {
		err = fmt.Errorf("%s: the file is empty", name)
	}
	return root, err
}

type parser struct {
	walker
	locations map[string]*time.Location // that were looked up
}

func (p *parser) book(n *yaml.Node) *Book {
	book := &Book{Zone: time.UTC, TenantZones: map[string]*time.Location{}, MinorUnit: -1}
	digits := int32(0)
	p.fields(n, "",
		field{"currency", true, func(n *yaml.Node, path string) { book.Currency, digits = p.currency(n, path) }},
		field{"minor_unit", false, func(n *yaml.Node, path string) { book.MinorUnit = p.minorUnit(n, path) }},
		field{"time_zone", false, func(n *yaml.Node, path string) { book.Zone = p.zone(n, path) }},
		field{"tenants", false, func(n *yaml.Node, path string) { p.zones(n, path, book) }},
		field{"skus", false, func(n *yaml.Node, path string) { p.skus(n, path, book) }},
		field{"versions", true, func(n *yaml.Node, path string) { p.versions(n, path, book) }},
	)
	if book.MinorUnit < 0 {
		book.MinorUnit = digits
	}
	return book
}

func (p *parser) currency(n *yaml.Node, path string) (string, int32) {
	code := p.text(n, path)
	digits, ok := minorUnit(code)
	if !ok && code != "" {
		p.failf(n, path, "%q is not an active ISO 4217 currency code, such as USD", code)
	}
	return code, digits
}

// minorUnit goes up to 9 places, the precision of distributed amounts.
func (p *parser) minorUnit(n *yaml.Node, path string) int32 {
	value, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || value < 0 || value > 9 {
		p.failf(n, path, "%s is not an integer in 0…9", show(n))
		return 0
	}
	return int32(value)
}

func (p *parser) zone(n *yaml.Node, path string) *time.Location {
	name := p.text(n, path)
	if zone, known := p.locations[name]; known {
		return zone
	}
	if len(p.errs) == maxShown {
		return time.UTC // the book is refused already, and a look-up takes time
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		p.failf(n, path, "%q is not a time zone of the IANA database, such as Europe/Berlin", name)
		return time.UTC
	}
	p.locations[name] = zone
	return zone
}

func (p *parser) zones(n *yaml.Node, path string, book *Book) {
	for _, tenant := range p.entries(n, path) {
		p.fields(tenant.value, tenant.path, field{"time_zone", true, func(n *yaml.Node, path string) {
			book.TenantZones[tenant.name] = p.zone(n, path)
		}})
	}
}

func (p *parser) skus(n *yaml.Node, path string, book *Book) {
	same := map[SKU]string{}
	for _, e := range p.entries(n, path) {
		sku := SKU{Name: e.name}
		p.fields(e.value, e.path,
			field{"profile", false, func(n *yaml.Node, path string) { sku.Profile = p.text(n, path) }},
			field{"gpus", false, func(n *yaml.Node, path string) { sku.GPUs = p.gpus(n, path) }},
		)
		if (sku.Profile == "") == (sku.GPUs == 0) {
			p.failf(e.value, e.path, "a SKU names either a profile or a number of gpus")
		}
		unnamed := SKU{Profile: sku.Profile, GPUs: sku.GPUs}
		if other, twice := same[unnamed]; twice {
			p.failf(e.value, e.path, "is the same as SKU %q", other)
		}
		same[unnamed] = e.name
		book.SKUs = append(book.SKUs, sku)
	}
}

func (p *parser) gpus(n *yaml.Node, path string) int {
	count, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || count < 1 {
		p.failf(n, path, "%s is not a whole number of GPUs", show(n))
		return 0
	}
	return count
}

func (p *parser) versions(n *yaml.Node, path string, book *Book) {
	lines := map[int64]int{}
	for _, item := range p.items(n, path) {
		version := p.version(item.value, item.path)
		at := version.Effective.Unix()
		if line, twice := lines[at]; twice && !version.Effective.IsZero() {
			p.failf(item.value, join(item.path, "effective"), "two versions at %s, the other in line %d",
				version.Effective.Format(time.RFC3339), line)
		}
		lines[at] = item.value.Line
		book.Versions = append(book.Versions, version)
	}
	if len(book.Versions) == 0 {
		p.failf(n, path, "a book needs at least one version")
	}
	slices.SortStableFunc(book.Versions, func(a, b Version) int { return a.Effective.Compare(b.Effective) })
}

func (p *parser) version(n *yaml.Node, path string) Version {
	version := Version{Models: map[string]Model{}, Tenants: map[string]Terms{}}
	var tenants entry
	p.fields(n, path,
		field{"effective", true, func(n *yaml.Node, path string) { version.Effective = p.effective(n, path) }},
		field{"models", true, func(n *yaml.Node, path string) { p.models(n, path, version.Models) }},
		field{"kwh", false, func(n *yaml.Node, path string) { version.KWh = p.number(n, path) }},
		field{"idle_surcharge", false, func(n *yaml.Node, path string) { version.IdleSurcharge = p.share(n, path) }},
		field{"distribution", false, func(n *yaml.Node, path string) { version.Proportional = p.distribution(n, path) }},
		field{"tenants", false, func(n *yaml.Node, path string) { tenants = entry{value: n, path: path} }},
	)
	// Terms refer to models, which may stand below them in the file.
	if tenants.value != nil {
		for _, tenant := range p.entries(tenants.value, tenants.path) {
			version.Tenants[tenant.name] = p.terms(tenant.value, tenant.path, version.Models)
		}
	}
	return version
}

func (p *parser) effective(n *yaml.Node, path string) time.Time {
	text := p.text(n, path)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.failf(n, path, "%q is not an RFC 3339 time, such as 2026-01-01T00:00:00Z", text)
		return time.Time{}
	}
	at = at.UTC()
	if !at.Equal(at.Truncate(time.Hour)) {
		p.failf(n, path, "%q is not the start of a UTC hour", text)
	}
	return at
}

func (p *parser) distribution(n *yaml.Node, path string) bool {
	text := p.text(n, path)
	if text != "none" && text != "proportional" {
		p.failf(n, path, "%q is neither none nor proportional", text)
	}
	return text == "proportional"
}

func (p *parser) models(n *yaml.Node, path string, models map[string]Model) {
	for _, e := range p.entries(n, path) {
		model := Model{Profiles: map[string]decimal.Decimal{}}
		p.fields(e.value, e.path,
			field{"gpu_hour", true, func(n *yaml.Node, path string) { model.GPUHour = p.number(n, path) }},
			field{"profiles", false, func(n *yaml.Node, path string) {
				for _, profile := range p.entries(n, path) {
					model.Profiles[profile.name] = p.number(profile.value, profile.path)
				}
			}},
			field{"tiers", false, func(n *yaml.Node, path string) { model.Tiers = p.tiers(n, path) }},
		)
		models[e.name] = model
	}
}

func (p *parser) tiers(n *yaml.Node, path string) []Tier {
	var tiers []Tier
	seen := map[string]bool{}
	for _, item := range p.items(n, path) {
		var tier Tier
		above := item.value
		p.fields(item.value, item.path,
			field{"above", true, func(n *yaml.Node, path string) { tier.Above, above = p.number(n, path), n }},
			field{"gpu_hour", true, func(n *yaml.Node, path string) { tier.GPUHour = p.number(n, path) }},
		)
		if seen[tier.Above.String()] {
			p.failf(above, join(item.path, "above"), "two tiers above %s GPU-hours", tier.Above)
		}
		seen[tier.Above.String()] = true
		tiers = append(tiers, tier)
	}
	slices.SortStableFunc(tiers, func(a, b Tier) int { return a.Above.Cmp(b.Above) })
	return tiers
}

func (p *parser) terms(n *yaml.Node, path string, models map[string]Model) Terms {
	var terms Terms
	p.fields(n, path,
		field{"discount", false, func(n *yaml.Node, path string) { terms.Discount = p.share(n, path) }},
		field{"fixed_discount", false, func(n *yaml.Node, path string) { terms.FixedDiscount = p.number(n, path) }},
		field{"minimum", false, func(n *yaml.Node, path string) {
			terms.Minimum, terms.HasMinimum = p.number(n, path), true
		}},
		field{"reserved", false, func(n *yaml.Node, path string) { terms.Reserved = p.reserved(n, path, models) }},
	)
	return terms
}

func (p *parser) reserved(n *yaml.Node, path string, models map[string]Model) []Reservation {
	var reserved []Reservation
	seen := map[string]bool{}
	for _, item := range p.items(n, path) {
		var r Reservation
		at := item.value
		p.fields(item.value, item.path,
			field{"model", true, func(n *yaml.Node, path string) { r.Model, at = p.text(n, path), n }},
			field{"gpus", true, func(n *yaml.Node, path string) { r.GPUs = p.number(n, path) }},
			field{"unused_gpu_hour", true, func(n *yaml.Node, path string) { r.UnusedGPUHour = p.number(n, path) }},
		)
		if _, priced := models[r.Model]; !priced && r.Model != "" {
			p.failf(at, join(item.path, "model"), "%q has no rate in this version (models: %s)", r.Model, modelNames(models))
		}
		if seen[r.Model] {
			p.failf(at, join(item.path, "model"), "%q is reserved twice by one tenant", r.Model)
		}
		seen[r.Model] = true
		reserved = append(reserved, r)
	}
	return reserved
}

// modelNames lists them, unless they are many.
func modelNames(models map[string]Model) string {
	if len(models) > maxShown {
		return fmt.Sprintf("%d of them", len(models))
	}
	return strings.Join(slices.Sorted(maps.Keys(models)), ", ")
}
