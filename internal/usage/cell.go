package usage

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// formulaStarts are the characters with which a spreadsheet may take a text
	// for a formula (OWASP, CSV Injection), full-width forms included.
	formulaStarts = "=+-@＝＋－＠"
	// cellSeparators end a cell for readers of some locale or setting.
	cellSeparators = ",;|"
	// skipped are characters that readers may take off the beginning of a cell.
	skipped = ` '"`
	// escapeMark begins the escape of what a CSV or a spreadsheet would lose.
	escapeMark = '␛' // U+241B
)

// TextCell is a text as a cell of a CSV: it can't become a formula, also where a
// reader cuts it at another separator, and it comes back from encoding/csv as it
// went in. Two texts never have the same cell:
//
//   - an apostrophe goes before what could be a formula, at the beginning and
//     after each comma, semicolon and bar; spaces, apostrophes and quotation
//     marks before the formula are skipped in looking for it
//   - an ASCII control is ␛ and the letter of its caret notation (a carriage
//     return ␛M, a line feed ␛J, a tab ␛I), a byte that is not UTF-8 is ␛ and its
//     two hexadecimal digits, and ␛ itself is ␛␛
//
// Numbers don't pass through here: -1.5 must stay a number.
func TextCell(text string) string {
	var b strings.Builder
	begins := true
	for i, size := 0, 0; i < len(text); i += size {
		if begins && strings.ContainsRune(formulaStarts, firstRune(strings.TrimLeft(text[i:], skipped))) {
			b.WriteByte('\'')
		}
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		begins = strings.ContainsRune(cellSeparators, r)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "%c%02x", escapeMark, text[i])
		case r < ' ' || r == 0x7f:
			b.WriteString(string([]rune{escapeMark, r ^ '@'}))
		case r == escapeMark:
			b.WriteString(string([]rune{escapeMark, escapeMark}))
		default:
			b.WriteString(text[i : i+size])
		}
	}
	return b.String()
}

// firstRune is a text's; that of an empty one is no character at all.
func firstRune(text string) rune {
	if text == "" {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r
}
