package explain

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
)

// TestEveryCodeHasWords: and there are none for codes that don't exist.
func TestEveryCodeHasWords(t *testing.T) {
	codes := map[string][]string{}
	for i := 1; i < 64; i++ {
		for kind, code := range map[string]string{
			"why": meter.Why(i).String(), "gap": meter.GapWhy(i).String(), "split": meter.EnergyWhy(i).String(),
		} {
			switch code {
			case "why?", "gap?", "energy?":
			case meter.EnergyRefused.String(): // its energy is in no row
			default:
				codes[kind] = append(codes[kind], code)
			}
		}
	}
	for kind, have := range map[string][]string{
		"why":   slices.Sorted(maps.Keys(words.Reasons)),
		"gap":   slices.Sorted(maps.Keys(words.Gaps)),
		"split": slices.Sorted(maps.Keys(words.Splits)),
	} {
		if diff := cmp.Diff(slices.Sorted(slices.Values(codes[kind])), have); diff != "" {
			t.Errorf("%s: codes of words.yaml differ from those of package meter (-want +got):\n%s", kind, diff)
		}
	}
	for code, r := range words.Reasons {
		if r.Short == "" || r.Long == "" {
			t.Errorf("reason %s has words %+v, want both", code, r)
		}
	}
}
