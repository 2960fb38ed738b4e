package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
)

func answer() table {
	return table{
		columns: []column{{name: "tenant"}, {name: "gpu_hours", number: true}},
		rows:    [][]string{{"ml-train", "1234.5"}, {"a,\"b\"", "-7"}, {"", ""}},
		show: func(i int, cell string) string {
			if i == 1 {
				return grouped(cell)
			}
			return cell
		},
	}
}

func TestTableInThreeFormats(t *testing.T) {
	for o, want := range map[output]string{
		outputTable: "TENANT    GPU-HOURS\nml-train    1 234.5\na,\"b\"            -7\n\n",
		outputCSV:   "tenant,gpu_hours\nml-train,1234.5\n\"a,\"\"b\"\"\",-7\n,\n",
		outputJSON: "[\n  {\"tenant\": \"ml-train\", \"gpu_hours\": 1234.5},\n" +
			"  {\"tenant\": \"a,\\\"b\\\"\", \"gpu_hours\": -7},\n  {\"tenant\": \"\", \"gpu_hours\": null}\n]\n",
	} {
		var b bytes.Buffer
		if err := answer().write(&b, o, false); err != nil {
			t.Errorf("%s: %v", o, err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
	}
	bad := table{columns: []column{{name: "n", number: true}}, rows: [][]string{{"1e"}}}
	if err := bad.write(&bytes.Buffer{}, outputJSON, false); err == nil || !strings.Contains(err.Error(), `"1e"`) {
		t.Errorf("a number that is none: got %v", err)
	}
	var b bytes.Buffer
	if err := (table{columns: bad.columns}).write(&b, outputJSON, false); err != nil || b.String() != "[]\n" {
		t.Errorf("no rows: got %q, %v", b.String(), err)
	}
}

func TestExactNumbersAreStringsInJSON(t *testing.T) {
	money := table{columns: []column{{name: "content_sha256"}, exactColumn("total")}, rows: [][]string{{"9f86", "1234567.10"}, {"d081", "-0.5"}, {"", ""}}}
	for o, want := range map[output]string{
		outputTable: "CONTENT SHA-256         TOTAL\n9f86             1 234 567.10\nd081                     -0.5\n\n",
		outputCSV:   "content_sha256,total\n9f86,1234567.10\nd081,-0.5\n,\n",
		outputJSON: "[\n  {\"content_sha256\": \"9f86\", \"total\": \"1234567.10\"},\n" +
			"  {\"content_sha256\": \"d081\", \"total\": \"-0.5\"},\n  {\"content_sha256\": \"\", \"total\": null}\n]\n",
	} {
		var b bytes.Buffer
		if err := money.write(&b, o, false); err != nil {
			t.Errorf("%s: %v", o, err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
	}
}

func TestTableKeepsTheTerminalSafe(t *testing.T) {
	evil := table{columns: []column{{name: "pod"}}, rows: [][]string{{"a\x1b[2Jb\n\u0085"}}}
	if got, want := evil.text(false), "POD\na�[2Jb��\n"; got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
	if got := evil.text(true); !strings.HasPrefix(got, "\x1b[1mPOD\x1b[0m\n") {
		t.Errorf("coloured text: got %q", got)
	}
}

func TestTableShowsNamesAsLongAsTheyMayBe(t *testing.T) {
	long := strings.Repeat("é", 41)
	names := table{columns: []column{{name: "pod"}, {name: "path", wide: true}}, rows: [][]string{{long, long}, {"a\u202egnp.b\u200b\ufeff", "c\u2028d"}}}
	want := "POD" + strings.Repeat(" ", 39) + "PATH\n" +
		strings.Repeat("é", 39) + "…  " + long + "\n" +
		"agnp.b" + strings.Repeat(" ", 36) + "c�d\n"
	if diff := cmp.Diff(want, names.text(false)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	var b bytes.Buffer
	if err := names.write(&b, outputCSV, false); err != nil || !strings.Contains(b.String(), long+","+long) {
		t.Errorf("csv: got %q, %v; want names whole", b.String(), err)
	}
}

func TestSmallNumbersKeepTwoDigits(t *testing.T) {
	for _, c := range []struct {
		number string
		places int
		want   string
	}{
		{"0", 1, "0.0"},
		{"0.5", 1, "0.5"},
		{"0.05", 1, "0.05"},
		{"0.0123", 1, "0.012"},
		{"-0.00123", 2, "-0.0012"},
		{"0.000000001", 1, "0.000000001"},
		{"1.04", 1, "1.0"},
		{"1234.56", 1, "1234.6"},
		{"0.996", 2, "1.00"},
		{"x", 1, "x"},
	} {
		if got := fixed(c.number, c.places); got != c.want {
			t.Errorf("fixed(%q, %d): got %s, want %s", c.number, c.places, got, c.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for number, want := range map[string]string{
		"": "", "0": "0", "999": "999", "1000": "1 000", "-1234567.891": "-1 234 567.891",
	} {
		if got := grouped(number); got != want {
			t.Errorf("grouped(%q): got %q, want %q", number, got, want)
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	if colour(&bytes.Buffer{}) {
		t.Error("colour in a buffer")
	}
}

func TestOutputFlagRefusesOtherWords(t *testing.T) {
	var o output
	for _, word := range []string{"table", "json", "csv"} {
		if err := o.Set(word); err != nil || o.String() != word {
			t.Errorf("Set(%q): got %v, %s", word, err, o)
		}
	}
	if err := o.Set("xml"); err == nil {
		t.Error("Set(xml): no error")
	}
}

func TestProgressWithoutATerminalIsALinePerTenPercent(t *testing.T) {
	var b bytes.Buffer
	fake := clock.NewFake(time.Unix(0, 0))
	p := newProgress(&b, fake, "ingest")
	p.Set(1, 0)
	p.Set(50, 100) // too soon to show anything
	fake.Advance(2 * time.Second)
	for i := range int64(1001) {
		if i%3 == 0 {
			p.Set(i*35/100, 1000)
		}
	}
	fake.Advance(10 * time.Second)
	p.Done("1,000 batches")
	want := "ingest: 10 %\ningest: 20 %\ningest: 30 %\ningest: 1,000 batches in 12s\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestProgressOnATerminalIsABar(t *testing.T) {
	var b bytes.Buffer
	fake := clock.NewFake(time.Unix(0, 0))
	p := newProgress(&b, fake, "ingest")
	p.terminal = true
	fake.Advance(10 * time.Second)
	p.Set(50, 100)
	p.Set(51, 100) // too soon to draw again
	fake.Advance(time.Second)
	p.Set(200, 100)
	p.Done("done")
	want := "\ringest  " + strings.Repeat("█", 15) + strings.Repeat("░", 15) + "  50 %  10s left\x1b[K" +
		"\ringest  " + strings.Repeat("█", 30) + " 100 %\x1b[K" +
		"\r\x1b[Kingest: done in 11s\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("bar (-want +got):\n%s", diff)
	}
}

// TestProgressNeverGoesBack: an estimate may shrink while a stage runs ahead of
// the next; no step is shown twice.
func TestProgressNeverGoesBack(t *testing.T) {
	fake := clock.NewFake(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	var b strings.Builder
	p := newProgress(&b, fake, "ingest")
	fake.Advance(time.Minute)
	for _, done := range []int64{21, 17, 22, 31} {
		p.Set(done, 100)
	}
	if diff := cmp.Diff("ingest: 20 %\ningest: 30 %\n", b.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}
