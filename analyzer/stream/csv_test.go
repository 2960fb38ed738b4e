package stream

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/fault"
)

// text is a series as CSV.
func (s *labelled) text() string {
	var b strings.Builder
	b.WriteString("timestamp,value\n")
	for i, at := range s.times {
		fmt.Fprintf(&b, "%s,%v\n", at.Format(time.DateTime), s.values[i])
	}
	return b.String()
}

func detect(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Detect(t.Context(), &out, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRowsAreThoseOfTheInputWithScoreAndLabel(t *testing.T) {
	s := generate("daily", 3)
	text := s.text()
	out := detect(t, text)
	in := strings.Split(text, "\n")
	lines := strings.Split(out, "\n")
	if len(lines) != len(in) || lines[0] != "timestamp,value,anomaly_score,label" {
		t.Fatalf("%d lines for %d, the first is %q", len(lines), len(in), lines[0])
	}
	labels := 0
	for i, r := range run(t, s.times, s.values) {
		label := 0
		if r.Alarm {
			label = 1
			labels++
		}
		if want := fmt.Sprintf("%s,%.6f,%d", in[i+1], r.Score, label); lines[i+1] != want {
			t.Fatalf("row %d: %q, want %q", i+2, lines[i+1], want)
		}
	}
	if labels == 0 {
		t.Error("no alarm in a series with anomalies")
	}
	// The beginning of the input gives the beginning of the output.
	for _, rows := range []int{1, 2, 700, 2000} {
		if begin := detect(t, strings.Join(in[:rows], "\n")); !strings.HasPrefix(out, begin) || strings.Count(begin, "\n") != rows {
			t.Errorf("the first %d rows give other rows", rows)
		}
	}
}

func TestTimestampsOfBothLayoutsAndAnyColumns(t *testing.T) {
	plain := detect(t, "timestamp,value\n2026-03-01 00:00:00,1\n2026-03-01 00:05:00,-2.5e-3\n")
	if !strings.Contains(plain, "2026-03-01 00:05:00,-2.5e-3,0.000000,0\n") {
		t.Errorf("printed %q", plain)
	}
	for _, other := range []string{
		"\ufefftimestamp,value\r\n2026-03-01 00:00:00,1\r\n2026-03-01 00:05:00,-2.5e-3\r\n",
		"timestamp, value\n2026-03-01 00:00:00, 1\n2026-03-01 00:05:00 ,-2.5e-3 \n",
		"host,value,timestamp\n=x,1,2026-03-01 00:00:00\n=x,-2.5e-3,2026-03-01 00:05:00\n",
		plain,
	} {
		if got := detect(t, other); got != plain {
			t.Errorf("%q gives %q", other, got)
		}
	}
	zoned := detect(t, "timestamp,value\n2026-03-01T01:00:00+01:00,1\n2026-03-01T00:00:00.5Z,1\n")
	if !strings.Contains(zoned, "\n2026-03-01T01:00:00+01:00,1,") || !strings.Contains(zoned, "\n2026-03-01T00:00:00.5Z,1,") {
		t.Errorf("printed %q", zoned)
	}
}

func TestABadRowIsNamedWithFieldAndValue(t *testing.T) {
	const head = "timestamp,value\n2026-03-01 00:00:00,1\n"
	for text, want := range map[string][]string{
		head + "2026-03-01 00:05:00,abc\n":          {"row 3", "value", `"abc"`},
		head + "2026-03-01 00:05:00,\n":             {"row 3", "value", `""`},
		head + "2026-03-01 00:05:00,NaN\n":          {"row 3", "value", `"NaN"`},
		head + "2026-03-01 00:05:00,-Inf\n":         {"row 3", "value", `"-Inf"`},
		head + "2026-03-01 00:05:00,1e999\n":        {"row 3", "value", `"1e999"`},
		head + "2026-03-01 00:05:00,1e200\n":        {"row 3", "value", "1e+200"},
		head + "2026-03-01 00:05:00,0x1p4\n":        {"row 3", "value", `"0x1p4"`},
		head + "2026-03-01 00:05:00,1;2\n":          {"row 3", "value", `"1;2"`},
		head + "2026-13-01 00:05:00,1\n":            {"row 3", "timestamp", `"2026-13-01 00:05:00"`},
		head + "=1+1,1\n":                           {"row 3", "timestamp", `"=1+1"`},
		head + "2026-02-27 00:00:00,1\n":            {"row 3", "timestamp", "2026-02-27"},
		head + "2026-03-01 00:05:00\n":              {"row 3"},
		head + "\"2026-03-01 00:05:00,1\n":          {"row 3"},
		head + "2026-03-01 00:05:00,1\x1b[31m2\n":   {"row 3", "value", `\x1b`},
		head + strings.Repeat("9", 2<<20) + ",1\n":  {"row 3"},
		head + "2026-03-01 00:05:00,1\n\x00,\x00\n": {"row 4", "timestamp"},
		"timestamp,val\n2026-03-01 00:00:00,1\n":    {"row 1", "value"},
		"2026-03-01 00:00:00,1\n":                   {"row 1", "timestamp"},
		"":                                          {"row 1", "timestamp"},
	} {
		var out bytes.Buffer
		err := Detect(t.Context(), &out, strings.NewReader(text))
		if err == nil {
			t.Errorf("%.80q is read", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.80q: %q lacks %s", text, err, part)
			}
		}
		if len(err.Error()) > 1000 {
			t.Errorf("%.80q: an error of %d bytes", text, len(err.Error()))
		}
		if wrongHeader := want[0] == "row 1"; (fault.Of(err) == fault.Invalid) != wrongHeader {
			t.Errorf("%.80q: class %d", text, fault.Of(err))
		}
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Detect(ctx, io.Discard, strings.NewReader("timestamp,value\n")); err == nil {
		t.Error("it goes on")
	}
}

// FuzzDetect holds that what is written is a table of numbers, whatever is read.
func FuzzDetect(f *testing.F) {
	s := generate("irregular", 1)
	f.Add(s.text()[:2000])
	f.Add("value,timestamp\n-1,2026-03-01T00:00:00Z\n\"1\n\",x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		_ = Detect(t.Context(), &out, strings.NewReader(text)) // refusing is right, too
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if i == 0 {
				continue
			}
			if _, err := parseTime(row[0]); err != nil {
				t.Errorf("row %d: %q", i, row)
			}
			for _, cell := range row[1:] {
				if _, err := strconv.ParseFloat(cell, 64); err != nil {
					t.Errorf("row %d: %q", i, row)
				}
			}
		}
	})
}
