package statement

import (
	"testing"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/decisions"
)

func dec(text string) decimal.Decimal { return decimal.RequireFromString(text) }

func TestNumbersAreGroupedAndRoundedHalfEven(t *testing.T) {
	for _, c := range []struct {
		in     string
		places int32
		want   string
	}{
		{"0", 2, "0.00"},
		{"1234567.125", 2, "1,234,567.12"},
		{"1234567.135", 2, "1,234,567.14"},
		{"-1234.5", 0, "−1,234"},
		{"-0.001", 2, "0.00"},
		{"999.999", 2, "1,000.00"},
		{"123456789012345678901234567890.1", 1, "123,456,789,012,345,678,901,234,567,890.1"},
	} {
		if got := number(dec(c.in), c.places); got != c.want {
			t.Errorf("number(%s, %d) = %s, want %s", c.in, c.places, got, c.want)
		}
	}
	if got, want := gpuHours(dec("0.000000001")), "<\u00a00.01"; got != want {
		t.Errorf("a trace of time is %q, want %q", got, want)
	}
	if got, want := trimmed(dec("0.1250"), 2), "0.125"; got != want {
		t.Errorf("a rate is %s, want %s", got, want)
	}
	if got, want := percent(dec("1"), dec("3"))+" "+percent(dec("1"), decimal.Zero), "33.3% –"; got != want {
		t.Errorf("shares %s, want %s", got, want)
	}
}

func TestVisibleShowsWhatCouldMislead(t *testing.T) {
	for in, want := range map[string]string{
		"plain":      "plain",
		"צוות":       "צוות",
		"a\u202eb":   "a⟨U+202E⟩b",
		"a\u200bb":   "a⟨U+200B⟩b",
		"a\nb\x00":   "a⟨U+000A⟩b⟨U+0000⟩",
		"می\u200cخو": "می\u200cخو", // a joiner that Persian needs
		"\ufeffx":    "⟨U+FEFF⟩x",
		"\u2066x":    "⟨U+2066⟩x",
		"<b>&'\"":    "<b>&'\"",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPathsOfTenants(t *testing.T) {
	for name, want := range map[string]string{
		"ml":    "/statements/2026-03/ml",
		"a/b":   "/statements/2026-03/a%2Fb",
		"a%2Fb": "/statements/2026-03/a%252Fb",
		"?x#y":  "/statements/2026-03/%3Fx%23y",
		"..":    "/statements/2026-03/?tenant=..",
		".":     "/statements/2026-03/?tenant=.",
		"...":   "/statements/2026-03/...",
	} {
		if got := tenantPath("2026-03", name); got != want {
			t.Errorf("tenantPath(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestPathsOfDocuments(t *testing.T) {
	for _, c := range []struct{ tenant, status, want string }{
		{"a/b", invoice.StatusDraft, "/api/v1/drafts/2026-03/a%2Fb"},
		{"..", invoice.StatusDraft, ""},
		{"a/b", invoice.StatusFinalised, "/api/v1/invoices/2026-03-a%2Fb-r0"},
		{"..", invoice.StatusFinalised, "/api/v1/invoices/2026-03-..-r0"},
	} {
		document := invoice.Invoice{Tenant: c.tenant, Period: "2026-03", Status: c.status, Number: decisions.Number("2026-03", c.tenant, 0)}
		if got := documentPath(document); got != c.want {
			t.Errorf("documentPath(%q, %s) = %q, want %q", c.tenant, c.status, got, c.want)
		}
	}
}

func TestAxisEndsAboveTheGreatest(t *testing.T) {
	for in, want := range map[string]string{
		"0": "1", "0.003": "0.004", "1": "1", "1.01": "2", "7.5": "8", "8.1": "10", "99": "100", "100": "100", "192": "200", "5001": "6000",
	} {
		if got := axisTop(dec(in)); !got.Equal(dec(want)) {
			t.Errorf("axisTop(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestChangeSinceTheMonthBefore(t *testing.T) {
	for _, c := range []struct{ now, before, want string }{
		{"110", "100", "10.0% more than in the month before"},
		{"75", "100", "25.0% less than in the month before"},
		{"5", "5", "same as the month before"},
		{"5", "0", "compared with the month before"},
		{"5000", "5", "compared with the month before"},
	} {
		if got := change(dec(c.now), dec(c.before)); got != c.want {
			t.Errorf("change(%s, %s) = %q, want %q", c.now, c.before, got, c.want)
		}
	}
}

func TestPaperStyleHoldsAnyName(t *testing.T) {
	if got, want := cssString(`a"}</style>b`), `a\000022\00007d\00003c\00002fstyle\00003eb`; got != want {
		t.Errorf("cssString = %s, want %s", got, want)
	}
}
