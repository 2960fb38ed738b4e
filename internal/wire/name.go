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

// invisible is what can't be seen in a name, or turns around what stands beside
// it: controls, format characters, line and paragraph separators, private use,
// and letters and marks that Unicode tells renderers to ignore.
var invisible = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// Invisible says that nobody sees the character: what Unicode says is drawn as
// nothing, and a blank of Braille, the place of an object, and a note without a
// head, which are. The fold of decisions refuses persons by it.
func Invisible(r rune) bool {
	return unicode.In(r, invisible...) || r == '\u2800' || r == '\ufffc' || r == '\U0001d159'
}

// Name makes a name that can be stored, shown and billed of any string (R15):
// valid UTF-8 in NFC, at most MaxNameBytes, without invisible characters, with no
// space but U+0020, and none at its ends. A name that is all this is returned as
// it is. In any other, what can't be seen is written out ([U+202E], [U+0020] at an
// end, and [xFF] for a byte that isn't UTF-8), the rest is cut off, and "~" with
// the first 8 hexadecimal digits of the original's SHA-256 follows.
//
// Two spellings that Unicode calls equivalent are one name, and Name(Name(s)) is
// Name(s). So a text that is written just as the escape of another is has the same
// name as that: whoever can write it could as well write any plain name. Otherwise
// two originals share a name only where both have the same escape and the same 32
// bits of hash: by accident of 65,000 that differ beyond what is kept, by intent
// after some 2^32 attempts. Letters that look alike stay different.
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

// plain is the common case: short, and printable ASCII.
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

// unseen is what a name has only written out, wherever it stands.
func unseen(r rune) bool { return Invisible(r) || (r != ' ' && unicode.Is(unicode.Zs, r)) }

// valid is the text with each byte that isn't UTF-8 written out. Only then is NFC
// that of all of it: norm leaves what follows such a byte as it is.
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

// escaped is the beginning of the text with all of it visible, short enough for
// the hash to follow.
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
