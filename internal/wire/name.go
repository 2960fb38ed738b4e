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
// it: controls, format characters, line and paragraph separators, and letters and
// marks that Unicode tells renderers to ignore.
var invisible = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// Name makes a name that can be stored, shown and billed of any string (R15):
// valid UTF-8 in NFC, at most MaxNameBytes, without invisible characters. A name
// that is all this is returned as it is. In any other, what is invisible is
// written out ([U+202E], and [xFF] for a byte that isn't UTF-8), the rest is cut
// off, and "~" with the first 8 hexadecimal digits of the original's SHA-256 keeps
// different originals different. Two spellings that Unicode calls equivalent are
// one name. Name(Name(s)) is Name(s).
func Name(s string) string {
	if plain(s) {
		return s
	}
	s = norm.NFC.String(s)
	if len(s) <= MaxNameBytes && utf8.ValidString(s) && strings.IndexFunc(s, isInvisible) < 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return escaped(s) + "~" + hex.EncodeToString(sum[:4])
}

// plain is the common case: short, and printable ASCII.
func plain(s string) bool {
	if len(s) > MaxNameBytes {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

func isInvisible(r rune) bool { return unicode.In(r, invisible...) }

// escaped is the beginning of the text with all of it visible, short enough for
// the hash to follow.
func escaped(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		next := s[:size]
		switch {
		case r == utf8.RuneError && size == 1:
			next = fmt.Sprintf("[x%02X]", s[0])
		case isInvisible(r):
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
