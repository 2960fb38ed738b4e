package tenants_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tenants"
)

var hour = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestMappingNamesFaults(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"versions:\n- effective: 2026-03-01T00:30:00Z\n", "full UTC hour"},
		{"versions:\n- effective: 2026-03-01T00:00:00Z\n- effective: 2026-03-01T00:00:00Z\n", "stands twice"},
		{"versions:\n- effective: 2026-03-01T00:00:00Z\n  rules:\n  - {match: {namespace: a}}\n", "rules[0].tenant is empty"},
		{
			"versions:\n- effective: 2026-03-01T00:00:00Z\n  rules:\n  - {match: {namespace: '[a'}, tenant: t}\n",
			`pattern "[a"`,
		},
		{"versions:\n- efective: 2026-03-01T00:00:00Z\n", "efective"},
	} {
		file := filepath.Join(t.TempDir(), "tenants.yaml")
		if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tenants.Load(file); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%q: error %v does not name %q and the file", c.yaml, err, c.want)
		}
	}
}

func TestMappingDefaults(t *testing.T) {
	m, err := tenants.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		owner meter.Owner
		want  string
	}{
		{meter.Owner{Tenant: "t", Namespace: "n", Account: "a"}, "t"},
		{meter.Owner{Namespace: "n", Account: "a"}, "n"},
		{meter.Owner{Account: "a", Job: "1"}, "a"},
		{meter.Owner{Job: "1"}, tenants.Unassigned},
	} {
		if got, _ := m.At(hour, c.owner); got != c.want {
			t.Errorf("tenant of %+v is %q, want %q", c.owner, got, c.want)
		}
	}
}

func parse(t *testing.T, text string) *tenants.Mapping {
	t.Helper()
	m, err := tenants.Parse("tenants.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Written newest first, to be sorted.
const twoVersions = `versions:
- effective: 2026-03-01T12:00:00Z
  rules:
  - {match: {namespace: "ml-*"}, tenant: research, project: models}
  - {match: {account: physics}, tenant: science}
- effective: 2026-03-01T06:00:00Z
  rules:
  - {match: {namespace: "ml-*", user: eve}, tenant: eve}
`

func TestMappingByHour(t *testing.T) {
	m := parse(t, twoVersions)
	ml := meter.Owner{Namespace: "ml-vision", User: "eve", Project: "own"}
	for _, c := range []struct {
		hour            int
		owner           meter.Owner
		tenant, project string
	}{
		{5, ml, "ml-vision", "own"},
		{6, ml, "eve", "own"},
		{6, meter.Owner{Namespace: "ml-vision"}, tenants.Unassigned, "ml-vision"},
		{11, ml, "eve", "own"},
		{12, ml, "research", "models"},
		{12, meter.Owner{Account: "physics", Job: "1"}, "science", ""},
		{12, meter.Owner{Tenant: "physics", Account: "other"}, tenants.Unassigned, ""},
	} {
		tenant, project := m.At(hour.Add(time.Duration(c.hour)*time.Hour), c.owner)
		if diff := cmp.Diff([2]string{c.tenant, c.project}, [2]string{tenant, project}); diff != "" {
			t.Errorf("tenant and project of %+v at %d h (-want +got):\n%s", c.owner, c.hour, diff)
		}
	}
}

func TestDiffersFrom(t *testing.T) {
	m := parse(t, twoVersions)
	for name, c := range map[string]struct {
		other string
		want  time.Time
	}{
		"no mapping":       {"", hour.Add(6 * time.Hour)},
		"another rule":     {strings.Replace(twoVersions, "science", "arts", 1), hour.Add(12 * time.Hour)},
		"another hour":     {strings.Replace(twoVersions, "T12", "T09", 1), hour.Add(9 * time.Hour)},
		"only other words": {"# a comment\n" + twoVersions, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		o := parse(t, c.other)
		if got := m.DiffersFrom(o); !got.Equal(c.want) {
			t.Errorf("%s: differs from %s, want %s", name, got, c.want)
		}
		if got := o.DiffersFrom(m); !got.Equal(c.want) {
			t.Errorf("%s, the other way round: differs from %s, want %s", name, got, c.want)
		}
		if m.Hash() == o.Hash() {
			t.Errorf("%s: both have the hash %s", name, m.Hash())
		}
	}
}

// TestTextRoundTrips: epochs keep a mapping's text, and its hash tells whether
// it is the one in force.
func TestTextRoundTrips(t *testing.T) {
	m := parse(t, twoVersions)
	if m.Text() != twoVersions {
		t.Errorf("text %q, want it as written", m.Text())
	}
	if again := parse(t, m.Text()); again.Hash() != m.Hash() {
		t.Errorf("hash %s of the text again, want %s", again.Hash(), m.Hash())
	}
	if got, want := parse(t, "").Hash(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("hash of the default mapping is %s, want that of no bytes, %s", got, want)
	}
}
