package prices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
)

const hostileHead = "currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {H100: {gpu_hour: \"1\"}}\n"

// many is a text n times, with its number.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostileBooks are books within the bounds of YAML that took a parser long, or
// much memory, by what their errors say; empty: nothing.
func hostileBooks() map[string]string {
	const terms = "  tenants: {t: {reserved: ["
	return map[string]string{
		"b.yaml:1: anchors":   "currency: &c USD\nversions: []\n",
		"and 33308 more":      hostileHead + terms + many(16_664, "{model: A%d, gpus: '1'},") + "]}}\n",
		"b.yaml:1: currency:": "currency: " + strings.Repeat("U", 1<<19),
		"time_zone":           "tenants: {" + many(20_000, "t%d: {time_zone: X},") + "}\n" + hostileHead,
		"the same as SKU":     "skus: {" + many(19_000, "s%d: {gpus: 1},") + "}\n" + hostileHead,
		"":                    "skus: {" + many(15_000, "s%[1]d: {profile: p%[1]d},") + "}\n" + hostileHead,
		"is not a non-negative decimal": "currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {H100: {gpu_hour: \"0." +
			strings.Repeat("1", 20_000) + "\"}}\n",
	}
}

func TestH7HostileBooksAreCheap(t *testing.T) {
	for want, text := range hostileBooks() {
		t.Run(want, func(t *testing.T) {
			costtest.Within(t, costtest.Time, 256<<20, func() {
				_, err := Parse("b.yaml", []byte(text))
				switch {
				case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("error %.300v, want %q", err, want)
				case err != nil && len(err.Error()) > 20*400:
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			})
		})
	}
	tiers := many(18_000, "{above: \"%d\", gpu_hour: \"1\"},")
	zones := "time_zone: UTC\ntenants: {" + many(19_000, "t%d: {time_zone: Asia/Kolkata},") + "}\n"
	for _, text := range []string{strings.Replace(hostileHead, "}}", ", tiers: ["+tiers+"]}}", 1), zones + hostileHead} {
		costtest.Within(t, 5*time.Second, 256<<20, func() {
			if _, err := Parse("b.yaml", []byte(text)); err != nil {
				t.Errorf("error %.300v", err)
			}
		})
	}
}

// TestL1NumbersHaveBoundedDigits: the longest that is taken, and one digit more.
func TestL1NumbersHaveBoundedDigits(t *testing.T) {
	const longest = "999999999999.999999999999"
	for number, ok := range map[string]bool{
		longest: true, "9" + longest: false, longest + "9": false, "1." + strings.Repeat("0", 20_000): false,
		strings.Repeat("1", 1<<19): false, "1e3": false, "-1": false, "": false,
	} {
		_, flat := ParseNumber(number)
		_, book := Parse("b.yaml", []byte(strings.Replace(hostileHead, `"1"`, `"`+number+`"`, 1)))
		for _, err := range []error{flat, book} {
			if (err == nil) != ok || err != nil && len(err.Error()) > 500 {
				t.Errorf("a number of %d characters: error %.200v, want taken %t", len(number), err, ok)
			}
		}
	}
}
