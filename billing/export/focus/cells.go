package focus

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/usage"
)

// extent is a column's maximum sizes: digits of numbers, characters of texts.
type extent struct{ whole, scale, length int }

func (e *extent) take(cell string, kind string) {
	if kind != typeDecimal {
		e.length = max(e.length, utf8.RuneCountInString(cell))
		return
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(cell, "-"), ".")
	e.whole, e.scale = max(e.whole, len(whole)), max(e.scale, len(fraction))
}

// header writes the columns' names.
func (w *writer) header() {
	w.stats = make([]extent, len(w.columns))
	for i, c := range w.columns {
		w.separate(i)
		_, _ = w.to.WriteString(c.name)
	}
	_, _ = w.to.WriteString("\r\n")
}

// record writes a row: texts in quotes, so that no reader takes one for a number or for null, and null as nothing.
// The writer keeps its first error, which Flush returns.
func (w *writer) record(p *page) {
	for i, c := range w.columns {
		w.separate(i)
		cell, quoted := w.cell(c.value(p))
		if cell == "" {
			continue
		}
		w.stats[i].take(cell, c.kind)
		if quoted {
			cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
		}
		_, _ = w.to.WriteString(cell)
	}
	_, _ = w.to.WriteString("\r\n") // RFC 4180, section 2
}

func (w *writer) separate(i int) {
	if i > 0 {
		_ = w.to.WriteByte(',')
	}
}

// cell formats a value, and returns whether it is to be quoted.
func (w *writer) cell(value any) (cell string, quoted bool) {
	switch v := value.(type) {
	case string:
		return w.readable(usage.TextCell(v)), true
	case object:
		return w.json(v), true
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05Z"), false
	case decimal.Decimal:
		return number(v), false
	}
	return "", false
}

// number is a plain decimal with a point, so that readers that guess a column's type don't take it for integers.
func number(v decimal.Decimal) string {
	s := v.String()
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// readable is a cell in the form the validator accepts: the backslash is escaped, too, so that different cells stay
// different.
func (w *writer) readable(cell string) string {
	if !w.options.Validator {
		return cell
	}
	return ascii(cell, func(r rune) bool { return r == '\\' })
}

// ascii writes characters beyond ASCII, and those for which escape is true, as \uXXXX.
func ascii(s string, escape func(r rune) bool) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf && !escape(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// json is an object in FOCUS's KeyValueFormat, keys sorted; it contains no character at which a reader with another
// separator would split it.
func (w *writer) json(o object) string {
	encoded, _ := json.Marshal(map[string]any(o)) // encoding texts and integers can't fail
	text := separators.Replace(string(encoded))
	if w.options.Validator {
		return ascii(text, func(rune) bool { return false })
	}
	return text
}

// separators occur in texts only; escaped in JSON they mean the same.
var separators = strings.NewReplacer(";", `\u003b`, "|", `\u007c`)
