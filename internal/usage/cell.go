package usage

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// formulaStarts are the characters by which a spreadsheet may recognise a formula (OWASP, CSV Injection),
	// including full-width forms.
	formulaStarts = "=+-@＝＋－＠"
	// cellSeparators end a cell in some locales or settings.
	cellSeparators = ",;|"
	// skipped are characters that readers may strip from the beginning of a cell.
	skipped = ` '"`
	// escapeMark begins the escape sequence of a character that a CSV or a spreadsheet would lose.
	escapeMark = '␛' // U+241B
)

// TextCell encodes a text as a cell of a CSV. A spreadsheet never takes it for a formula, even if it splits the cell
// at another separator, and encoding/csv reads it back unchanged. Different texts have different cells:
//
//   - an apostrophe is inserted before a possible formula, at the beginning and after each comma, semicolon and bar;
//     spaces, apostrophes and quotation marks before the formula are skipped
//   - an ASCII control becomes ␛ and the letter of its caret notation (a carriage return ␛M, a line feed ␛J, a tab ␛I),
//     a byte that is not UTF-8 ␛ and its two hexadecimal digits, and ␛ itself ␛␛
//
// Don't use it for numbers: -1.5 must stay a number.
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

// firstRune is a text's first character; of an empty text, one that is no character.
func firstRune(text string) rune {
	if text == "" {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r
}
