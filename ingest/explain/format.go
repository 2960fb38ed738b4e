package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stamp formats a time as RFC 3339, with milliseconds if not zero.
func stamp(t time.Time) string {
	if t.Nanosecond() == 0 {
		return t.Format(time.RFC3339)
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

// clockOf formats the time of day, with milliseconds if not zero.
func clockOf(t time.Time) string {
	if t.Nanosecond() == 0 {
		return t.Format(time.TimeOnly)
	}
	return t.Format("15:04:05.000")
}

// seconds formats a duration in seconds.
func seconds(ms int64) string {
	return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) + " s"
}

// count formats a number of things: "1 slot", "3 slots".
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped separates thousands with spaces: "1 234 567".
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

// joules formats millijoules as joules with three decimal places.
func joules(mj int64) string {
	sign := ""
	if mj < 0 {
		sign, mj = "-", -mj
	}
	return fmt.Sprintf("%s%s.%03d", sign, grouped(mj/1000), mj%1000)
}

// TextWidth is the width of the terminal that texts are made for, in columns.
const TextWidth = 100

// Wrap breaks a text into lines of at most TextWidth runes, each with the indent and a
// line end. A longer word gets a line of its own; the groups of a number and its unit
// stay together.
func Wrap(text string, indent int) string {
	pad := strings.Repeat(" ", indent)
	var b strings.Builder
	used := 0
	for _, word := range unbroken(strings.Fields(text)) {
		n := len([]rune(word))
		switch {
		case used == 0:
			b.WriteString(pad)
			used = indent + n
		case used+1+n > TextWidth:
			b.WriteString("\n" + pad)
			used = indent + n
		default:
			b.WriteByte(' ')
			used += 1 + n
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

// unbroken joins the groups of a number's digits, and its unit, to one word.
func unbroken(words []string) []string {
	var out []string
	for _, word := range words {
		if n := len(out); n > 0 && (isGroup(word) || isUnit(word)) && isDigit(out[n-1][len(out[n-1])-1]) {
			out[n-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// isGroup reports whether a word begins with exactly three digits.
func isGroup(word string) bool {
	return len(word) >= 3 && isDigit(word[0]) && isDigit(word[1]) && isDigit(word[2]) &&
		(len(word) == 3 || !isDigit(word[3]))
}

func isUnit(word string) bool {
	switch strings.TrimRight(word, ".,;:)") {
	case "J", "W", "s", "ms", "slice-ms", "GPU-h":
		return true
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
