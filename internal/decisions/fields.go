package decisions

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shopspring/decimal"
)

// Limits of fields, in bytes or characters as their checks say.
const (
	maxName = 200
	maxText = 4096
	maxBook = 1 << 20
)

// join joins the errors of fields on one line.
func join(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// wrap joins the errors of the fields of a part of a body.
func wrap(part string, errs ...error) error {
	if err := join(errs...); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	return nil
}

// shown quotes a value for an error, and cuts it if it is long.
func shown(v string) string {
	const limit = 80
	if len(v) > limit {
		return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(v[:limit], ""), len(v))
	}
	return fmt.Sprintf("%q", v)
}

func wrong(field, value, want string) error {
	return fmt.Errorf("%s is %s, want %s", field, shown(value), want)
}

// name checks a name: 1 to maxName printable characters.
func name(field, v string) error {
	n := utf8.RuneCountInString(v)
	if n < 1 || n > maxName || !utf8.ValidString(v) ||
		strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return wrong(field, v, fmt.Sprintf("1 to %d printable characters", maxName))
	}
	return nil
}

// text checks a person's text: at most maxText bytes, may be empty or have several
// lines.
func text(field, v string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if len(v) > maxText || !utf8.ValidString(v) || strings.ContainsFunc(v, bad) {
		return wrong(field, v, fmt.Sprintf("at most %d bytes of printable text", maxText))
	}
	return nil
}

// file checks the text of a file, of least to maxBook bytes, and its hash.
func file(v, sum string, least int) error {
	if len(v) < least || len(v) > maxBook || !utf8.ValidString(v) {
		return wrong("text", v, fmt.Sprintf("%d to %d bytes of UTF-8", least, maxBook))
	}
	if got := Digest([]byte(v)); sum != got {
		return wrong("sha256", sum, "the text's, "+got)
	}
	return nil
}

func digest(field, v string) error {
	if !isDigest(v) {
		return wrong(field, v, "a SHA-256 in 64 lower-case hex digits")
	}
	return nil
}

func isDigest(v string) bool {
	_, err := hex.DecodeString(v)
	return len(v) == 64 && err == nil && strings.ToLower(v) == v
}

// instant checks a time in UTC within the range of ClickHouse's DateTime.
func instant(field string, t time.Time) error {
	if _, offset := t.Zone(); offset != 0 || t.Year() < 1970 || t.Year() > 2105 {
		return fmt.Errorf("%s is %s, want a time in UTC, in the years 1970 to 2105", field, t.Format(time.RFC3339))
	}
	return nil
}

// hours checks a range of whole UTC hours, [from, to).
func hours(from, to time.Time) error {
	for _, end := range []struct {
		field string
		at    time.Time
	}{{"from", from}, {"to", to}} {
		if err := instant(end.field, end.at); err != nil {
			return err
		}
		if !end.at.Truncate(time.Hour).Equal(end.at) {
			return fmt.Errorf("%s is %s, want a full hour", end.field, end.at.Format(time.RFC3339Nano))
		}
	}
	if !from.Before(to) {
		return fmt.Errorf("to is %s, want it after from, %s", to.Format(time.RFC3339), from.Format(time.RFC3339))
	}
	return nil
}

func month(field, v string) error {
	if t, err := time.Parse("2006-01", v); err != nil || t.Year() < 1970 {
		return wrong(field, v, "a month such as 2026-10")
	}
	return nil
}

var (
	// plainDecimal fits ClickHouse's Decimal(38, 9).
	plainDecimal = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,28})(\.[0-9]{1,9})?$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
)

// amount checks a decimal in plain digits, and returns its sign.
func amount(field, v string) (sign int, err error) {
	if plainDecimal.MatchString(v) {
		d, err := decimal.NewFromString(v)
		if err == nil && !(d.IsZero() && v[0] == '-') {
			return d.Sign(), nil
		}
	}
	return 0, wrong(field, v, "a decimal in plain digits, such as -12.50")
}

// oneOf checks that a value is in a list.
func oneOf(field, v string, values ...string) error {
	for _, allowed := range values {
		if v == allowed {
			return nil
		}
	}
	return wrong(field, v, cmp.Or(strings.Join(values, " or "), "nothing"))
}
