package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func answer() Table {
	return Table{
		Columns: []Column{{Name: "tenant"}, {Name: "gpu_hours", Number: true}},
		Rows:    [][]string{{"ml-train", "1234.5"}, {"a,\"b\"", "-7"}, {"", ""}},
		show: func(i int, cell string) string {
			if i == 1 {
				return Grouped(cell)
			}
			return cell
		},
	}
}

func TestTableInThreeFormats(t *testing.T) {
	for o, want := range map[string]string{
		AsTable: "TENANT    GPU-HOURS\nml-train    1 234.5\na,\"b\"            -7\n\n",
		AsCSV:   "tenant,gpu_hours\nml-train,1234.5\n\"a,\"\"b\"\"\",-7\n,\n",
		AsJSON: "[\n  {\"tenant\": \"ml-train\", \"gpu_hours\": 1234.5},\n" +
			"  {\"tenant\": \"a,\\\"b\\\"\", \"gpu_hours\": -7},\n  {\"tenant\": \"\", \"gpu_hours\": null}\n]\n",
	} {
		var b bytes.Buffer
		if err := answer().Write(&b, o, false); err != nil {
			t.Errorf("%s: %v", o, err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
	}
	bad := Table{Columns: []Column{{Name: "n", Number: true}}, Rows: [][]string{{"1e"}}}
	if err := bad.Write(&bytes.Buffer{}, AsJSON, false); err == nil || !strings.Contains(err.Error(), `"1e"`) {
		t.Errorf("a number that is none: got %v", err)
	}
	var b bytes.Buffer
	if err := (Table{Columns: bad.Columns}).Write(&b, AsJSON, false); err != nil || b.String() != "[]\n" {
		t.Errorf("no rows: got %q, %v", b.String(), err)
	}
}

func TestExactNumbersAreStringsInJSON(t *testing.T) {
	money := Table{
		Columns: Columns("content_sha256", "total exact"),
		Rows:    [][]string{{"9f86", "1234567.10"}, {"d081", "-0.5"}, {"", ""}},
	}
	for o, want := range map[string]string{
		AsTable: "CONTENT SHA-256         TOTAL\n9f86             1 234 567.10\nd081                     -0.5\n\n",
		AsCSV:   "content_sha256,total\n9f86,1234567.10\nd081,-0.5\n,\n",
		AsJSON: "[\n  {\"content_sha256\": \"9f86\", \"total\": \"1234567.10\"},\n" +
			"  {\"content_sha256\": \"d081\", \"total\": \"-0.5\"},\n  {\"content_sha256\": \"\", \"total\": null}\n]\n",
	} {
		var b bytes.Buffer
		if err := money.Write(&b, o, false); err != nil {
			t.Errorf("%s: %v", o, err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
	}
}

func TestTableKeepsTheTerminalSafe(t *testing.T) {
	evil := Table{Columns: []Column{{Name: "pod"}}, Rows: [][]string{{"a\x1b[2Jb\n\u0085"}}}
	if got, want := evil.Text(false), "POD\na�[2Jb��\n"; got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
	if got := evil.Text(true); !strings.HasPrefix(got, "\x1b[1mPOD\x1b[0m\n") {
		t.Errorf("coloured text: got %q", got)
	}
}

// TestMessagesKeepTheTerminalSafe: names that came over the wire may be in what a command prints, and in its error.
func TestMessagesKeepTheTerminalSafe(t *testing.T) {
	const evil, want = "a\x1b[2Jb\u202ec\r\nd\u009be", "a�[2Jbc�\nd�e"
	for name, write := range map[string]func(*Session) error{
		"Sayf":    func(s *Session) error { s.Sayf("%v", errors.New(evil)); return nil },
		"Writef":  func(s *Session) error { return s.Writef("%s", evil) },
		"Heading": func(s *Session) error { return s.Heading(evil, evil) },
		"report":  func(s *Session) error { s.report(t.Context(), errors.New(evil)); return nil },
	} {
		var out bytes.Buffer
		err := write(&Session{Stdout: &out, Stderr: &out})
		if err != nil || !strings.Contains(out.String(), want) || strings.ContainsAny(out.String(), "\x1b\u202e\r\u009b") {
			t.Errorf("%s printed %q, %v; want %q in it", name, out.String(), err, want)
		}
	}
	var document bytes.Buffer
	if err := (&Session{Stdout: &document}).Verbatim(evil); err != nil || document.String() != evil {
		t.Errorf("Verbatim printed %q, %v; want %q", document.String(), err, evil)
	}
}

func TestTableShowsNamesAsLongAsTheyMayBe(t *testing.T) {
	long := strings.Repeat("é", 41)
	names := Table{
		Columns: []Column{{Name: "pod"}, {Name: "path", Wide: true}},
		Rows:    [][]string{{long, long}, {"a\u202egnp.b\u200b\ufeff", "c\u2028d"}},
	}
	want := "POD" + strings.Repeat(" ", 39) + "PATH\n" +
		strings.Repeat("é", 39) + "…  " + long + "\n" +
		"agnp.b" + strings.Repeat(" ", 36) + "c�d\n"
	if diff := cmp.Diff(want, names.Text(false)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	var b bytes.Buffer
	if err := names.Write(&b, AsCSV, false); err != nil || !strings.Contains(b.String(), long+","+long) {
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
		if got := Fixed(c.number, c.places); got != c.want {
			t.Errorf("fixed(%q, %d): got %s, want %s", c.number, c.places, got, c.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for number, want := range map[string]string{
		"": "", "0": "0", "999": "999", "1000": "1 000", "-1234567.891": "-1 234 567.891",
	} {
		if got := Grouped(number); got != want {
			t.Errorf("grouped(%q): got %q, want %q", number, got, want)
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	if Colour(&bytes.Buffer{}) {
		t.Error("colour in a buffer")
	}
}

func TestChoiceRefusesOtherWords(t *testing.T) {
	var o string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Choice(flags, &o, "output", "o", "as `FORMAT`", AsTable, AsJSON, AsCSV)
	for _, word := range []string{"table", "json", "csv"} {
		if err := flags.Parse([]string{"-o", word}); err != nil || o != word {
			t.Errorf("-o %s: %q, %v", word, o, err)
		}
	}
	if err := flags.Parse([]string{"--output", "xml"}); err == nil || o != "csv" {
		t.Errorf("--output xml: %q, %v", o, err)
	}
}

// The last word alone says what a column holds: a name may have several words, or none.
func TestColumns(t *testing.T) {
	want := []Column{
		{Name: "tenant"},
		{Name: "who pays", Wide: true},
		{Name: "what it is"},
		{Name: "GPU-hours", Number: true},
		{Name: "total", Number: true, exact: true},
		{Wide: true},
		{Name: "wide"},
	}
	got := Columns("tenant", "who pays wide", "what it is", "GPU-hours number", "total exact", " wide", "wide")
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Column{})); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}
