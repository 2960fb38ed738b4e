package tenants

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// Unassigned is the tenant of owners that match no rule: a real account.
const Unassigned = "unassigned"

// Mapping maps owner facts to tenants and projects, by hour (R15). Without versions the tenant is the owner's own,
// else the namespace, else the account.
type Mapping struct {
	Versions []Version `yaml:"versions"`
	text     string    // as written
	hash     string
}

// Version is in force from a UTC hour on.
type Version struct {
	Effective time.Time `yaml:"effective"`
	Rules     []Rule    `yaml:"rules"` // the first that matches decides
}

// Rule assigns a tenant to owners whose facts match all of its patterns.
type Rule struct {
	Match   Pattern `yaml:"match"`
	Tenant  string  `yaml:"tenant"`
	Project string  `yaml:"project"` // empty: the owner's own project, else the namespace
}

// Pattern holds shell patterns (path.Match); an empty one matches all.
type Pattern struct {
	Tenant    string `yaml:"tenant"`
	Project   string `yaml:"project"`
	Namespace string `yaml:"namespace"`
	Pod       string `yaml:"pod"`
	Job       string `yaml:"job"`
	User      string `yaml:"user"`
	Account   string `yaml:"account"`
}

// Load reads a tenants.yaml; an empty path is the default mapping.
func Load(file string) (*Mapping, error) {
	if file == "" {
		return Parse("tenants", nil)
	}
	data, err := config.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	return Parse(file, data)
}

// Parse parses the text of a mapping, from a file or an epoch; name is used in errors. Empty data is the default
// mapping.
func Parse(name string, data []byte) (*Mapping, error) {
	m := &Mapping{text: string(data), hash: hashOf(data)}
	if len(data) > 0 {
		if err := config.Decode(name, data, m); err != nil {
			return nil, err
		}
	}
	if err := m.validate(name); err != nil {
		return nil, err
	}
	slices.SortFunc(m.Versions, func(a, b Version) int { return a.Effective.Compare(b.Effective) })
	return m, nil
}

// Text is the mapping's text; Parse returns the same mapping for it.
func (m *Mapping) Text() string { return m.text }

// Hash is the SHA-256 of the text, in hexadecimal digits.
func (m *Mapping) Hash() string { return m.hash }

// DiffersFrom is the first hour that another mapping may map differently; if both are equivalent, an hour after all
// of the ledger's.
func (m *Mapping) DiffersFrom(o *Mapping) time.Time {
	for i := 0; i < len(m.Versions) || i < len(o.Versions); i++ {
		switch {
		case i >= len(m.Versions):
			return o.Versions[i].Effective
		case i >= len(o.Versions):
			return m.Versions[i].Effective
		}
		a, b := m.Versions[i], o.Versions[i]
		if !a.Effective.Equal(b.Effective) {
			return slices.MinFunc([]time.Time{a.Effective, b.Effective}, time.Time.Compare)
		}
		if !slices.Equal(a.Rules, b.Rules) {
			return a.Effective
		}
	}
	return never // equivalent rules in another text
}

// never is after any hour that ClickHouse's DateTime can hold in the ledger.
var never = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (m *Mapping) validate(file string) error {
	seen := map[time.Time]bool{}
	for i, v := range m.Versions {
		switch {
		case !v.Effective.Equal(v.Effective.Truncate(time.Hour)):
			return fmt.Errorf("%s: versions[%d].effective %s: must be a full UTC hour", file, i, v.Effective)
		case seen[v.Effective.UTC()]:
			return fmt.Errorf("%s: versions[%d].effective %s: stands twice", file, i, v.Effective)
		}
		seen[v.Effective.UTC()] = true
		for j, r := range v.Rules {
			if r.Tenant == "" {
				return fmt.Errorf("%s: versions[%d].rules[%d].tenant is empty", file, i, j)
			}
			for _, pattern := range r.Match.all() {
				if _, err := path.Match(pattern, ""); err != nil {
					return fmt.Errorf("%s: versions[%d].rules[%d].match: pattern %q: %w", file, i, j, pattern, err)
				}
			}
		}
	}
	return nil
}

func (p Pattern) all() [7]string {
	return [7]string{p.Tenant, p.Project, p.Namespace, p.Pod, p.Job, p.User, p.Account}
}

func (p Pattern) matches(o meter.Owner) bool {
	facts := [7]string{o.Tenant, o.Project, o.Namespace, o.Pod, o.Job, o.User, o.Account}
	for i, pattern := range p.all() {
		if ok, err := path.Match(pattern, facts[i]); pattern != "" && (err != nil || !ok) {
			return false
		}
	}
	return true
}

// At returns the owner's tenant and project in an hour, as names that an invoice can contain, whatever the mapping
// (R15).
func (m *Mapping) At(hour time.Time, o meter.Owner) (tenant, project string) {
	tenant, project = m.at(hour, o)
	return wire.Name(tenant), wire.Name(project)
}

func (m *Mapping) at(hour time.Time, o meter.Owner) (tenant, project string) {
	own := cmp.Or(o.Project, o.Namespace)
	v := m.version(hour)
	if v == nil {
		return cmp.Or(o.Tenant, o.Namespace, o.Account, Unassigned), o.Project
	}
	for _, r := range v.Rules {
		if r.Match.matches(o) {
			return r.Tenant, cmp.Or(r.Project, own)
		}
	}
	return Unassigned, own
}

func (m *Mapping) version(hour time.Time) *Version {
	for i := len(m.Versions) - 1; i >= 0; i-- {
		if !m.Versions[i].Effective.After(hour) {
			return &m.Versions[i]
		}
	}
	return nil
}
