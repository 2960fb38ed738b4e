package invoice

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
)

// Copies written in turns come out as they went in, whatever is packed when.
func TestCopiesComeOutAsTheyWentIn(t *testing.T) {
	kept, err := newCopies()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*bytes.Buffer{"a": {}, "b": {}, "empty": {}}
	for tenant := range want {
		kept.tenant(tenant)
	}
	for i := range 20_000 {
		tenant := []string{"a", "b", "a"}[i%3]
		line := fmt.Appendf(nil, "[%d,%q]\n", i*i, tenant)
		want[tenant].Write(line)
		if n, err := kept.of[tenant].Write(line); n != len(line) || err != nil {
			t.Fatalf("write = %d, %v", n, err)
		}
	}
	whole := make([]byte, 3*packBytes) // at once
	want["a"].Write(whole)
	_, _ = kept.of["a"].Write(whole)
	if packed := kept.of["a"].packed.Len(); packed > want["a"].Len()/2 {
		t.Errorf("%d bytes are packed to %d", want["a"].Len(), packed)
	}
	for tenant, text := range want {
		got, err := kept.text(tenant)
		if err != nil || !bytes.Equal(got, text.Bytes()) {
			t.Errorf("%s: %d bytes, %v; want the %d that were written", tenant, len(got), err, text.Len())
		}
	}
	if again, err := kept.text("a"); err != nil || !bytes.Equal(again, want["a"].Bytes()) {
		t.Errorf("read again: %d bytes, %v", len(again), err)
	}
	if _, err := kept.text("nobody"); err == nil {
		t.Error("a copy that nobody wrote was read")
	}
}

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
