package usage_test

import (
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gputally/gputally/internal/usage"
)

func TestL2TextCellDefusesFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ml-train": "ml-train", "a=b": "a=b", "'x": "'x", `CORP\ann`: `CORP\ann`, "a, b; c|d": "a, b; c|d",
		"=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", " =1": "' =1", `"=1`: `'"=1`, "'=1": "''=1",
		"＝1": "'＝1", "＋1": "'＋1", "－1": "'－1", "＠x": "'＠x",
		"a;=1+1": "a;'=1+1", "a,@x": "a,'@x", "a;b|-1;c": "a;b|'-1;c", `a;" =1`: `a;'" =1`,
		"\tx": "␛Ix", "\r=x": "␛M=x", "a\n=x": "a␛J=x", "\x00x": "␛@x", "\x7f": "␛?", "\xff": "␛ff", "␛M": "␛␛M", "�": "�",
	} {
		if got := usage.TextCell(text); got != want {
			t.Errorf("cell of %q = %q, want %q", text, got, want)
		}
	}
}

// TestL2TenantsNeverBecomeOne: what a cell was made of can be told from it,
// after a writer and a reader that may each change line ends.
func TestL2TenantsNeverBecomeOne(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 2))
	parts := []string{
		"=", "-", "+", "@", "'", `"`, " ", ",", ";", "|", "\t", "\r", "\n", "\x00", "\xff", "\xe2", "␛",
		"＝", "M", "f", "a", `\`,
	}
	texts := []string{"vision", "vision\r", "vision\r\n", "vision\n", "=x", "'=x", "''=x"}
	for range 100_000 {
		var text strings.Builder
		for range random.IntN(7) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		texts = append(texts, text.String())
	}
	var file bytes.Buffer
	out := csv.NewWriter(&file)
	out.UseCRLF = true
	for _, text := range texts {
		_ = out.Write([]string{"t", usage.TextCell(text)})
	}
	out.Flush()
	rows, err := csv.NewReader(&file).ReadAll()
	if err != nil || len(rows) != len(texts) {
		t.Fatalf("%d rows of %d: %v", len(rows), len(texts), err)
	}
	for i, row := range rows {
		if got := textOf(row[1]); got != texts[i] {
			t.Fatalf("%q was written as %q, which is %q", texts[i], row[1], got)
		}
		for _, part := range strings.FieldsFunc(row[1], func(r rune) bool { return strings.ContainsRune(",;|\t\r\n", r) }) {
			if start := strings.TrimLeft(part, ` "`); start != "" && slices.Contains([]rune("=+-@＝＋－＠"), []rune(start)[0]) {
				t.Fatalf("%q was written as %q, a part of which is a formula: %q", texts[i], row[1], part)
			}
		}
	}
}

// textOf undoes usage.TextCell, written after its description.
func textOf(cell string) string {
	var unmarked strings.Builder
	begins := true
	for i, r := range cell {
		formula := strings.IndexFunc(cell[i:], func(r rune) bool { return !strings.ContainsRune(` '"`, r) })
		if begins && r == '\'' && formula >= 0 && strings.ContainsRune("=+-@＝＋－＠", []rune(cell[i+formula:])[0]) {
			begins = false
			continue
		}
		begins = strings.ContainsRune(",;|", r)
		unmarked.WriteRune(r)
	}
	var text []byte
	for runes := []rune(unmarked.String()); len(runes) > 0; runes = runes[1:] {
		switch {
		case runes[0] != '␛':
			text = utf8.AppendRune(text, runes[0])
			continue
		case runes[1] == '␛':
			text = append(text, "␛"...)
		case runes[1] >= 'a' || runes[1] >= '0' && runes[1] <= '9':
			b, _ := hex.DecodeString(string(runes[1:3]))
			text, runes = append(text, b...), runes[1:]
		default:
			text = append(text, byte(runes[1]^'@'))
		}
		runes = runes[1:]
	}
	return string(text)
}
