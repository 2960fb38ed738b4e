package decisions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/gputally/gputally/internal/wire"
)

// Person is the form of a person's name by which two spellings are one person:
// NFKC, case folded, without space around it and with one space between words.
// An error names what keeps a name from standing for a person: nothing visible,
// invisible characters, or letters of several scripts, which look alike (a
// Cyrillic а among Latin letters). East Asian names may mix scripts as Unicode's
// "highly restrictive" level does (UTS 39, section 5.2).
func Person(who string) (string, error) {
	if !utf8.ValidString(who) {
		return "", fmt.Errorf("name %s is not UTF-8", shown(who))
	}
	if i := strings.IndexFunc(who, invisible); i >= 0 {
		r, _ := utf8.DecodeRuneInString(who[i:])
		return "", fmt.Errorf("name %s has the character %U, which can't be seen: leave it out", shown(who), r)
	}
	folded := who
	for range 4 { // folding once can make what NFKC composes anew; it is stable after the second
		next := norm.NFKC.String(cases.Fold().String(norm.NFKC.String(folded)))
		if next == folded {
			break
		}
		folded = next
	}
	folded = strings.Join(strings.Fields(folded), " ")
	if folded == "" {
		return "", errors.New("name is empty")
	}
	if mixed := scripts(folded); !plausible(mixed) {
		return "", fmt.Errorf("name %s mixes the scripts %s, whose letters look alike: write it in one", shown(who),
			strings.Join(mixed, " and "))
	}
	return folded, nil
}

// another fails unless two names are two persons'.
func another(one, other string) error {
	a, err := Person(one)
	if err != nil {
		return err
	}
	b, err := Person(other)
	if err == nil && a == b {
		err = fmt.Errorf("%s and %s are one person", shown(one), shown(other))
	}
	return err
}

// invisible is what keeps a name from standing for a person. The two that the fold
// lets pass stand in no name that a writer takes (seen): old logs may have them.
func invisible(r rune) bool { return wire.Invisible(r) && r != '\ufffc' && r != '\U0001d159' }

// seen fails where a new record names a person with characters that can't be seen.
func seen(who string) error {
	if i := strings.IndexFunc(who, wire.Invisible); i >= 0 {
		r, _ := utf8.DecodeRuneInString(who[i:])
		return fmt.Errorf("name %s has the character %U, which can't be seen: leave it out", shown(who), r)
	}
	return nil
}

// scripts are those of a name's letters, sorted.
func scripts(name string) (found []string) {
	for _, r := range name {
		if !unicode.IsLetter(r) || unicode.In(r, unicode.Common, unicode.Inherited) ||
			slices.ContainsFunc(found, func(s string) bool { return unicode.Is(unicode.Scripts[s], r) }) {
			continue
		}
		for script, table := range unicode.Scripts {
			if unicode.Is(table, r) {
				found = append(found, script)
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

// plausible says whether one language writes names with these scripts.
func plausible(found []string) bool {
	within := func(set ...string) bool {
		return !slices.ContainsFunc(found, func(s string) bool { return !slices.Contains(set, s) })
	}
	return len(found) < 2 || within("Latin", "Han", "Hiragana", "Katakana") || within("Latin", "Han", "Hangul") ||
		within("Latin", "Han", "Bopomofo")
}
