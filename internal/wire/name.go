package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nameHashBytes is "~" and eight hexadecimal digits.
const nameHashBytes = 9

// invisible characters are not displayed, or reorder those beside them: controls, format characters, line and
// paragraph separators, private use, and letters and marks that renderers ignore by Unicode.
var invisible = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// Invisible returns whether a character is invisible by Unicode, or is drawn as blank: Braille blank, object
// replacement character, musical null notehead. The decisions log refuses persons' names with them.
func Invisible(r rune) bool {
	return unicode.In(r, invisible...) || r == '\u2800' || r == '\ufffc' || r == '\U0001d159'
}

// Name converts any string to a name that can be stored, displayed and billed (R15): valid UTF-8 in NFC, at most
// MaxNameBytes, without invisible characters, with no space but U+0020, and none at its ends. Such a name is returned
// unchanged. In any other string, invisible characters are escaped ([U+202E], [U+0020] at an end, and [xFF] for a
// byte that isn't UTF-8), the rest is truncated, and "~" with the first 8 hexadecimal digits of the original's
// SHA-256 follows.
//
// Canonically equivalent spellings have one name, and Name(Name(s)) is Name(s). So a text equal to another's escape
// has the same name: whoever can write it could as well write any plain name. Otherwise two originals have the same
// name only if both have the same escape and the same 32 bits of hash: by chance among some 65,000 strings that
// differ beyond the truncation, on purpose after some 2^32 attempts. Letters that look alike stay different.
func Name(s string) string {
	if plain(s) {
		return s
	}
	s = norm.NFC.String(s)
	if len(s) <= MaxNameBytes && utf8.ValidString(s) && strings.IndexFunc(s, unseen) < 0 && strings.Trim(s, " ") == s {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return escaped(norm.NFC.String(valid(s))) + "~" + hex.EncodeToString(sum[:4])
}

// plain is true for the common case: short, printable ASCII.
func plain(s string) bool {
	if len(s) > MaxNameBytes || strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// unseen characters are always escaped in a name.
func unseen(r rune) bool { return Invisible(r) || (r != ' ' && unicode.Is(unicode.Zs, r)) }

// valid escapes each byte that isn't UTF-8. It must precede NFC: norm leaves the text after such a byte unchanged.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, "[x%02X]", s[i])
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// escaped is the beginning of the text with invisible characters escaped, short enough for the hash to follow.
func escaped(s string) string {
	var out strings.Builder
	for begun := false; len(s) > 0; begun = true {
		r, size := utf8.DecodeRuneInString(s)
		next := s[:size]
		if unseen(r) || (r == ' ' && (!begun || len(s) == 1)) {
			next = fmt.Sprintf("[U+%04X]", r)
		}
		if out.Len()+len(next) > MaxNameBytes-nameHashBytes {
			break
		}
		out.WriteString(next)
		s = s[size:]
	}
	return out.String()
}
