// Package plural writes counted nouns: "1 hour", "2 hours", "0 batches".
package plural

import (
	"fmt"
	"strings"
)

// Of is n and the noun, in the plural unless n is 1. Only the noun's last word takes
// the plural: "journal row" gives "2 journal rows". It knows the regular forms in s, es
// and ies, and leaves.
func Of[N ~int | ~int64 | ~uint32 | ~uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, form(noun))
}

func form(noun string) string {
	if stem, leaf := strings.CutSuffix(noun, "leaf"); leaf {
		return stem + "leaves"
	}
	for _, end := range []string{"s", "x", "z", "ch", "sh"} {
		if strings.HasSuffix(noun, end) {
			return noun + "es"
		}
	}
	stem, y := strings.CutSuffix(noun, "y")
	if y && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		return stem + "ies"
	}
	return noun + "s"
}
