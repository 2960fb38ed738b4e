package statement

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

const (
	// hourPlaces is the number of displayed places of GPU-hours; documents have nine places.
	hourPlaces = 2
	// exactPlaces is the number of displayed places of lines' amounts and quantities: enough that the displayed
	// figures add up.
	exactPlaces = 4
	minusSign   = "\u2212"
	hardSpace   = "\u00a0"
)

// number formats a decimal, rounded half-even, with commas between thousands.
func number(d decimal.Decimal, places int32) string {
	rounded := d.RoundBank(places)
	whole, fraction, point := strings.Cut(rounded.Abs().StringFixed(places), ".")
	var out strings.Builder
	if rounded.IsNegative() {
		out.WriteString(minusSign)
	}
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	if point {
		out.WriteString("." + fraction)
	}
	return out.String()
}

// gpuHours formats GPU-hours; less than the smallest displayed amount differs from zero.
func gpuHours(d decimal.Decimal) string {
	if d.IsPositive() && d.RoundBank(hourPlaces).IsZero() {
		return "<" + hardSpace + "0.01"
	}
	return number(d, hourPlaces)
}

// trimmed formats a rate: exact, with at least the minor unit.
func trimmed(d decimal.Decimal, places int32) string {
	return number(d, max(places, -decimal.RequireFromString(d.String()).Exponent()))
}

func money(d decimal.Decimal, places int32, currency string) string {
	return number(d, places) + hardSpace + currency
}

// percent is part of whole, with one place; a dash if whole is zero.
func percent(part, whole decimal.Decimal) string {
	if whole.IsZero() {
		return "–"
	}
	return number(part.Mul(decimal.NewFromInt(100)).DivRound(whole, 6), 1) + "%"
}

// kilowattHours converts millijoules to kWh.
func kilowattHours(mJ decimal.Decimal) string {
	return number(mJ.DivRound(decimal.NewFromInt(3_600_000_000), 9), 1) + hardSpace + "kWh"
}

// visible makes characters visible that are invisible or could reorder the text beside
// them: controls, direction marks and characters without width.
func visible(name string) string {
	var out strings.Builder
	for _, r := range name {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Co) || hidden(r) {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// hidden are the format characters, except the joiners that scripts need.
func hidden(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	return unicode.Is(unicode.Cf, r) && r != zeroWidthNonJoiner && r != zeroWidthJoiner
}

// named is an external name, or a placeholder for none.
func named(name string) string {
	if strings.TrimSpace(name) == "" {
		return "(not named)"
	}
	return visible(name)
}

// isolated isolates a name's direction in texts without a bdi element.
func isolated(name string) string { return "\u2068" + visible(name) + "\u2069" }

// instant is a time with its zone, to the minute.
func instant(at time.Time, zone *time.Location) string {
	return at.In(zone).Format("2 Jan 2006, 15:04 MST")
}

// zoneTitle is the name of a zone, unless its abbreviation beside the times suffices.
func zoneTitle(zone *time.Location) string {
	if zone == time.UTC || zone.String() == "UTC" {
		return ""
	}
	return ", in " + zone.String()
}

// spanText describes a range of time.
func spanText(from, to time.Time, zone *time.Location) string {
	return "From " + instant(from, zone) + " to " + instant(to, zone) + zoneTitle(zone) + "."
}

func monthTitle(p rating.Period) string { return fmt.Sprintf("%s %d", p.Month, p.Year) }

func fleetPath(period string) string { return Path + url.PathEscape(period) }

// tenantPath is the path of a tenant's page.
func tenantPath(period, tenant string) string {
	if dots(tenant) {
		return fleetPath(period) + "/?tenant=" + tenant
	}
	return fleetPath(period) + "/" + url.PathEscape(tenant)
}

// documentPath is the path of a document with all digits in the finance API: a draft by its tenant, a finalised one
// by its number; empty if no path can contain it.
func documentPath(document invoice.Invoice) string {
	const prefix = "/api/v1/"
	switch {
	case document.Status != invoice.StatusDraft:
		return prefix + "invoices/" + url.PathEscape(document.Number)
	case dots(document.Tenant):
		return ""
	}
	return prefix + "drafts/" + url.PathEscape(document.Period) + "/" + url.PathEscape(document.Tenant)
}

// dots are names that browsers treat as a step in the path, however they are escaped.
func dots(name string) bool { return name == "." || name == ".." }
