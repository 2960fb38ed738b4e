package rating

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/costtest"
)

// encoded is a fact as encoding/json writes it.
func encoded(t testing.TB, fact ...any) string {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fact); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// What is written by hand is what encoding/json writes, byte for byte.
func FuzzFactLine(f *testing.F) {
	for _, name := range []string{"", "p", `a "b" \c`, "<a&b>", "\u2028 \u2029", "\xff\xfe", "Zürich\n\x00\x7f", "GPU 😀"} {
		f.Add(name, int64(-1), int64(1_772_323_200))
	}
	var line factLine // as a copy's, from one fact to the next
	f.Fuzz(func(t *testing.T, name string, number, unix int64) {
		hour := time.Unix(unix%4_000_000_000, 0)
		amount := decimal.New(number, -9)
		want := encoded(t, name, hour.UTC().Format(time.RFC3339), name, number, amount.String())
		var got string
		costtest.Within(t, costtest.Time, 1<<20+64*uint64(len(name)), func() {
			got = string(line.begin(name).at(hour).name(name).number(number).amount(amount).end())
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
	})
}

// Lines are cut into the cells that encoding/json finds, and refused where it
// refuses them.
func FuzzFactCells(f *testing.F) {
	for _, line := range []string{
		`["usage","2026-10-01T00:00:00Z","p","H100","",0,7,"active",-5,0]`, `[]`, `[ "a" , 1 ]`, `["a\"b",1]`, `["a",01]`, `["a",-]`,
		`["a"`, `["a"]x`, `["a",]`, `[1.5e3,null,[2],{"a":"]"}]`, `["ü"]`, `"a"`, ``, `[-0]`, "[\"\x01\"]", `[1 2]`,
	} {
		f.Add([]byte(line))
	}
	cells := newFactReader() // as a copy's, from one line to the next
	f.Fuzz(func(t *testing.T, line []byte) {
		var want []json.RawMessage
		refused := json.Unmarshal(line, &want)
		var err error
		costtest.Within(t, costtest.Time, 1<<20+16*uint64(len(line)), func() { err = cells.read(line) })
		if (err == nil) != (refused == nil) {
			t.Fatalf("read = %v, encoding/json says %v", err, refused)
		}
		if refused != nil {
			return
		}
		if diff := cmp.Diff(fmt.Sprintf("%q", want), fmt.Sprintf("%q", slices.Clone(cells.cells))); diff != "" {
			t.Errorf("cells (-want +got):\n%s", diff)
		}
		for _, cell := range want {
			var text string
			var number int64
			wantText, wantNumber := json.Unmarshal(cell, &text), json.Unmarshal(cell, &number)
			one := factReader{cells: []json.RawMessage{cell}, names: map[string]string{}}
			if got := one.name("name"); got != text && wantText == nil || (one.err == nil) != (wantText == nil) {
				t.Errorf("name of %s: got %q, %v; want %q, %v", cell, got, one.err, text, wantText)
			}
			one = factReader{cells: []json.RawMessage{cell}}
			if got := one.number("number"); got != number && wantNumber == nil || (one.err == nil) != (wantNumber == nil) {
				t.Errorf("number of %s: got %d, %v; want %d, %v", cell, got, one.err, number, wantNumber)
			}
		}
	})
}

// benchmarkRow is what a copy has most of.
var benchmarkRow = Row{
	Hour: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Project: "project-1", Model: "NVIDIA H100 80GB HBM3", Profile: "1g.10gb",
	ProfileSlices: 1, Slices: 7, Bucket: bucketActive, SliceMS: 123_456_789, EnergyMJ: 987_654,
}

// BenchmarkFacts writes and reads a line of usage, by hand and by encoding/json.
func BenchmarkFacts(b *testing.B) {
	r := benchmarkRow
	text := []byte(strings.TrimSuffix(encoded(b, factUsage, r.Hour.Format(time.RFC3339), r.Project, r.Model, r.Profile, r.ProfileSlices, r.Slices, r.Bucket, r.SliceMS, r.EnergyMJ), "\n"))
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		w := newCopyWriter(nil)
		for b.Loop() {
			w.usage(r)
		}
	})
	b.Run("write by encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		w := newCopyWriter(nil)
		for b.Loop() {
			_, _ = w.hash.Write([]byte(encoded(b, factUsage, r.Hour.Format(time.RFC3339), r.Project, r.Model, r.Profile, r.ProfileSlices, r.Slices, r.Bucket, r.SliceMS, r.EnergyMJ)))
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		cells := newFactReader()
		for b.Loop() {
			var fact Fact
			if err := copyFormat.parse(cells, text, &fact); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read by encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var raw []json.RawMessage
			if err := json.Unmarshal(text, &raw); err != nil {
				b.Fatal(err)
			}
			var texts [6]string
			var numbers [4]int64
			for i, to := range []any{&texts[0], &texts[1], &texts[2], &texts[3], &texts[4], &numbers[0], &numbers[1], &texts[5], &numbers[2], &numbers[3]} {
				if err := json.Unmarshal(raw[i], to); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := time.Parse(time.RFC3339, texts[1]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
