package wire_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/wire"
)

// TestM12NamesAreNormalised: what can't be stored, shown or billed becomes
// visible; what can is left alone.
func TestM12NamesAreNormalised(t *testing.T) {
	long := strings.Repeat("x", 9<<20)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"ml-train", "ml-train"},
		{`ACME\eve`, `ACME\eve`},
		{"físico", "físico"},
		{"fi\u0301sico", "físico"}, // NFD
		{"研究所", "研究所"},
		{strings.Repeat("a", 200), strings.Repeat("a", 200)},
		{strings.Repeat("a", 201), strings.Repeat("a", 191) + "~a92efd82"},
		{"a\x00b", "a[U+0000]b~"},
		{"\x1b[31mred", "[U+001B][31mred~"},
		{"\u202etxt.exe", "[U+202E]txt.exe~"},
		{"vi\u200bsion", "vi[U+200B]sion~"},
		{"vision\r", "vision[U+000D]~"},
		{"vision\ufe0f", "vision[U+FE0F]~"},
		{"\u3164", "[U+3164]~"},
		{"a\u2028b", "a[U+2028]b~"},
		{"ML train", "ML train"},
		{"vision ", "vision[U+0020]~"},
		{"  vision", "[U+0020] vision~"},
		{" ", "[U+0020]~"},
		{"vision\u00a0", "vision[U+00A0]~"},
		{"vis\u2009ion", "vis[U+2009]ion~"},
		{"vision\u3000", "vision[U+3000]~"},
		{"vision\u2800", "vision[U+2800]~"},
		{"vision\ufffc", "vision[U+FFFC]~"},
		{"vision\U0001d159", "vision[U+1D159]~"},
		{"vision\ue000", "vision[U+E000]~"},
		{"bad\xff\xfebytes", "bad[xFF][xFE]bytes~"},
		{"\xf6\u037e", "[xF6];~"}, // a Greek question mark is NFC's semicolon
		{long, strings.Repeat("x", 191) + "~"},
	} {
		got := wire.Name(c.in)
		if !strings.HasPrefix(got, c.want) || (!strings.HasSuffix(c.want, "~") && got != c.want && len(c.in) <= 200) {
			t.Errorf("Name(%.40q) = %q, want %q and a hash", c.in, got, c.want)
		}
		holdsAsName(t, c.in)
	}
}

// TestM12NamesStayDifferent: what differs only where it can't be seen, or beyond
// what is kept, is two names; what Unicode calls equivalent is one.
func TestM12NamesStayDifferent(t *testing.T) {
	start := strings.Repeat("n", 200)
	names := map[string]string{}
	for _, s := range []string{
		"vision", "vision ", " vision", "vision\u00a0", "vision\u2800", "vision\U0001d159", "vision\u3000",
		start, start + "a", start + "b", "a", "a\u200b", "\u200ba", "a\u200c", "a\x00", "a\xff", "a\xfe", "a[U+200B]", "[x]", "a\u202e",
	} {
		if other, ok := names[wire.Name(s)]; ok {
			t.Errorf("%q and %q are both %q", s, other, wire.Name(s))
		}
		names[wire.Name(s)] = s
	}
	nfd := strings.Repeat("e\u0301", 150) + "\u200b"
	if nfc := norm.NFC.String(nfd); nfc == nfd || wire.Name(nfd) != wire.Name(nfc) {
		t.Errorf("NFD is %q, NFC is %q", wire.Name(nfd), wire.Name(nfc))
	}
}

// TestM12WhoWritesAnEscapeIsItsName: the one way for two texts to share a name
// without a collision of hashes, since a name's name is itself.
func TestM12WhoWritesAnEscapeIsItsName(t *testing.T) {
	escape := wire.Name("team\u200b")
	for _, s := range []string{escape, "team[U+200B]~00000000", "team[U+200B]", "team~a51a1366"} {
		if got := wire.Name(s); got != s || (got == escape) != (s == escape) {
			t.Errorf("Name(%q) = %q", s, got)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"", "a\x00", "e\u0301", "\xff", "e\u200b\u0301", "\u1100\u1161\u11a8", "\xf6\u037e", " a \u00a0 ", strings.Repeat("\u0301", 90)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		costtest.Within(t, costtest.Time, 1<<20+64*uint64(len(s)), func() { holdsAsName(t, s) })
	})
}

// holdsAsName: a name is in NFC, short, valid and visible, and is its own name.
func holdsAsName(t *testing.T, s string) {
	t.Helper()
	got := wire.Name(s)
	switch {
	case !utf8.ValidString(got), !norm.NFC.IsNormalString(got), len(got) > wire.MaxNameBytes:
		t.Errorf("Name(%.80q) = %q: %d bytes, or not UTF-8 in NFC", s, got, len(got))
	case strings.ContainsFunc(got, func(r rune) bool { return wire.Invisible(r) || (r != ' ' && unicode.IsSpace(r)) }):
		t.Errorf("Name(%.80q) = %q: not all of it can be seen", s, got)
	case strings.Trim(got, " ") != got:
		t.Errorf("Name(%.80q) = %q: begins or ends with a space", s, got)
	case wire.Name(got) != got:
		t.Errorf("Name(%.80q) = %q, whose name is %q", s, got, wire.Name(got))
	case (got == "") != (s == ""):
		t.Errorf("Name(%.80q) = %q", s, got)
	}
}
