package focuscheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// instantLayout is FOCUS's date and time (DateTimeFormat).
const instantLayout = "2006-01-02T15:04:05Z"

// Attributes' rules that cells break.
const (
	ruleUnicode     = "StringHandling-A-001-M"
	rulePlaceholder = "NullHandling-A-002-M"
)

// check is the rule that a cell breaks by itself; empty: none.
func (c *column) check(cell string) string {
	switch {
	case cell == "":
		return c.notNull
	case c.kind != object && !c.anyName && placeholder(cell):
		return rulePlaceholder
	}
	wrong := ""
	switch c.kind {
	case number:
		wrong = wrongNumber(cell, c.typed)
	case instant:
		wrong = wrongInstant(cell, c.typed)
	case object:
		wrong = wrongObject(cell)
	default:
		if !utf8.ValidString(cell) {
			wrong = ruleUnicode
		}
	}
	if wrong == "" && c.allowed != "" && !slices.Contains(c.values, cell) {
		return c.allowed
	}
	return wrong
}

// numeric is a number as NumericFormat has it; exponents beyond three digits
// are no amounts.
var numeric = regexp.MustCompile(`^-?([0-9]+(\.[0-9]+)?|\.[0-9]+)(E-?[0-9]{1,3})?$`)

// maxNumber is the longest cell that is a number, in bytes: FOCUS has at most 38
// digits.
const maxNumber = 64

// wrongNumbers are the ways in which a number can be wrong, in this order.
var wrongNumbers = []struct {
	id      string
	matches *regexp.Regexp
}{
	{"NumericFormat-A-010-M", regexp.MustCompile(`^\+`)},
	{"NumericFormat-A-004-M", regexp.MustCompile(`^-?[0-9]+/[0-9]+$`)},
	{"NumericFormat-A-006-M", regexp.MustCompile(`^-?[0-9.]+E\+[0-9]+$`)},
	{"NumericFormat-A-005-M", regexp.MustCompile(`^-?[0-9.]+(e|x10\^)-?[0-9]+$`)},
	{"NumericFormat-A-011-M", regexp.MustCompile(`^[0-9.]+-$|^\([0-9.]+\)$|^−`)},
	{"NumericFormat-A-007-M", regexp.MustCompile(`^=|[*()^]`)},
	{"NumericFormat-A-002-M", regexp.MustCompile(`^-?[0-9.]+([;|]| - |\.\.)-?[0-9.]+$`)},
	{"NumericFormat-A-009-M", regexp.MustCompile(`^-?[0-9][0-9.,' ]*$`)},
	{"NumericFormat-A-008-M", regexp.MustCompile(`^[^0-9]*[0-9][0-9.]*[^0-9]*$`)},
}

// wrongNumber is the rule that a number breaks; otherwise is its column's rule
// of type. Empty: none.
func wrongNumber(cell, otherwise string) string {
	if len(cell) > maxNumber {
		return otherwise
	}
	if numeric.MatchString(cell) {
		return ""
	}
	for _, wrong := range wrongNumbers {
		if wrong.matches.MatchString(cell) {
			return wrong.id
		}
	}
	return otherwise
}

// timeOfDay is two digits each of hours, minutes and seconds.
var timeOfDay = regexp.MustCompile(`T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$`)

func wrongInstant(cell, otherwise string) string {
	_, err := time.Parse(instantLayout, cell)
	switch {
	case err == nil && len(cell) == len(instantLayout):
		return ""
	case !strings.Contains(cell, "T"):
		return "DateTimeFormat-A-004-M"
	case !strings.HasSuffix(cell, "Z"):
		return "DateTimeFormat-A-006-M"
	case !timeOfDay.MatchString(cell):
		return "DateTimeFormat-A-005-M"
	}
	return otherwise
}

// placeholders are words that stand for null where null should stand.
var placeholders = map[string]bool{
	"n/a": true, "na": true, "null": true, "none": true, "nil": true, "not applicable": true, "-": true, "unknown": true,
}

// placeholder returns whether a cell is only a placeholder for no value.
func placeholder(cell string) bool {
	word := strings.ToLower(strings.TrimSpace(cell))
	return word == "" || placeholders[word]
}

// errNested and errTwice are what is wrong with an object that is one.
var (
	errNested = errors.New("a value is an object or an array")
	errTwice  = errors.New("a key is there twice")
)

func wrongObject(cell string) string {
	_, err := parseObject(cell)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errNested):
		return "KeyValueFormat-A-004-M"
	case errors.Is(err, errTwice):
		return "KeyValueFormat-A-002-M"
	}
	return "KeyValueFormat-A-001-M"
}

// parseObject reads a JSON object of plain values.
func parseObject(cell string) (map[string]any, error) {
	decoder := json.NewDecoder(strings.NewReader(cell))
	open, err := decoder.Token()
	if err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("read object: %q does not begin as one", cell)
	}
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("read key: %w", err)
		}
		key, _ := token.(string) // the decoder takes no other key
		value, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("read value of %q: %w", key, err)
		}
		if _, nested := value.(json.Delim); nested {
			return nil, errNested
		}
		if _, twice := object[key]; twice {
			return nil, errTwice
		}
		object[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("read end of object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read object: there is more after it")
	}
	return object, nil
}
