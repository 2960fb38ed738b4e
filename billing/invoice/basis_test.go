package invoice

import (
	"testing"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// The usage that a line of a tier rests on follows from its threshold, in
// whatever words the line's text says it.
func TestEvidenceDoesNotReadTexts(t *testing.T) {
	book, err := prices.Parse("b.yaml", []byte(`currency: USD
versions:
- effective: 2026-01-01T00:00:00Z
  models: {H100: {gpu_hour: "3", tiers: [{above: "1000", gpu_hour: "2"}, {above: "2000", gpu_hour: "1"}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	row := rating.Row{Hour: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Tenant: "a", Model: "H100", Slices: 1, Bucket: "active", SliceMS: 1}
	for above, want := range map[string]bool{"1000": true, "2000": true, "3000": false} {
		line := rating.Line{
			Effect: rating.EffectTier, Model: "H100", UnitPrice: rating.Exact(book.Versions[0].Models["H100"].Tiers[1].GPUHour.Neg()), TierAbove: above,
			Detail: "beyond 1E+3 hours",
		}
		rests, err := restsOn(book, "a", line)
		if err != nil {
			t.Fatal(err)
		}
		if got := rests.on(row); got != want {
			t.Errorf("above %s: rests on the row: %t, want %t", above, got, want)
		}
	}
}
