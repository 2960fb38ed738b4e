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

// Person normalises a person's name, so that different spellings of one person are
// equal: NFKC, case folded, trimmed, with single spaces. It returns an error if a name
// can't identify a person: it is empty, or has invisible characters, or letters of
// several scripts, which look alike (a Cyrillic а among Latin letters). East Asian
// names may mix scripts as Unicode's "highly restrictive" level allows (UTS 39,
// section 5.2).
func Person(who string) (string, error) {
	if !utf8.ValidString(who) {
		return "", fmt.Errorf("name %s is not UTF-8", shown(who))
	}
	if i := strings.IndexFunc(who, invisible); i >= 0 {
		r, _ := utf8.DecodeRuneInString(who[i:])
		return "", fmt.Errorf("name %s has the invisible character %U: leave it out", shown(who), r)
	}
	folded := who
	for range 4 { // folding once can produce what NFKC composes again; it is stable after the second time
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
		return "", fmt.Errorf("name %s mixes letters of the scripts %s, which look alike: use one script", shown(who),
			strings.Join(mixed, " and "))
	}
	return folded, nil
}

// another returns an error if two names are one person's.
func another(one, other string) error {
	a, err := Person(one)
	if err != nil {
		return err
	}
	b, err := Person(other)
	if err == nil && a == b {
		err = fmt.Errorf("%s and %s are the same person", shown(one), shown(other))
	}
	return err
}

// invisible reports whether a character is not allowed in a name. The fold accepts the
// two exceptions, which old logs may have; new records don't (seen).
func invisible(r rune) bool { return wire.Invisible(r) && r != '\ufffc' && r != '\U0001d159' }

// seen returns an error if the name in a new record has invisible characters.
func seen(who string) error {
	if i := strings.IndexFunc(who, wire.Invisible); i >= 0 {
		r, _ := utf8.DecodeRuneInString(who[i:])
		return fmt.Errorf("name %s has the invisible character %U: leave it out", shown(who), r)
	}
	return nil
}

// scripts returns the scripts of a name's letters, sorted.
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

// plausible reports whether names of one language use these scripts together.
func plausible(found []string) bool {
	within := func(set ...string) bool {
		return !slices.ContainsFunc(found, func(s string) bool { return !slices.Contains(set, s) })
	}
	return len(found) < 2 || within("Latin", "Han", "Hiragana", "Katakana") || within("Latin", "Han", "Hangul") ||
		within("Latin", "Han", "Bopomofo")
}
