package tenants_test

import (
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tenants"
)

// FuzzParse: any text is a mapping or an error, cheaply, and a mapping gives
// everybody a tenant.
func FuzzParse(f *testing.F) {
	f.Add("versions:\n- effective: 2026-01-01T00:00:00Z\n  rules:\n  - {match: {namespace: 'ml-*', user: '[a-f]?'}, " +
		"tenant: ml, project: p}\n")
	f.Add("versions: &v\n- effective: 2026-01-01T00:00:00Z\n  rules: []\n- *v\n")
	f.Add("versions: [{effective: 2026-01-01T00:00:00Z, rules: [{match: {pod: '" + strings.Repeat("*a", 200) +
		"'}, tenant: t}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(text)), func() {
			mapping, err := tenants.Parse("f", []byte(text))
			if err != nil {
				return
			}
			for _, v := range mapping.Versions {
				owner := meter.Owner{Namespace: "ml-a", Pod: strings.Repeat("a", 200) + "b", User: "bob"}
				if tenant, _ := mapping.At(v.Effective, owner); tenant == "" {
					t.Errorf("%q gives %+v no tenant", text, owner)
				}
			}
		})
	})
}
