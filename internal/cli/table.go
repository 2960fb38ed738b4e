package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"

	"github.com/gputally/gputally/internal/usage"
)

// Ways to print an answer.
const (
	AsTable = "table"
	AsJSON  = "json"
	AsCSV   = "csv"
)

// Column is a table's column: name heads it in CSV and JSON, and in capitals on
// the terminal. Numbers are right-aligned there, and bare in JSON; of exact
// ones, such as money, thousands are set apart there, and JSON has a string,
// which no reader takes for a float. Text that comes from outside is cut there,
// unless the column is wide.
type Column struct {
	Name   string
	Number bool
	exact  bool
	Wide   bool
}

// Columns declares columns, one string each: the name, and as its last word what it holds
// unless that is text: "gpu_hours number", "total exact" for exact numbers such as money,
// "who pays wide" for text that is never cut.
func Columns(declared ...string) []Column {
	columns := make([]Column, len(declared))
	for i, text := range declared {
		columns[i].Name = text
		for kind, column := range map[string]Column{
			" number": {Number: true}, " exact": {Number: true, exact: true}, " wide": {Wide: true},
		} {
			if name, is := strings.CutSuffix(text, kind); is {
				columns[i] = column
				columns[i].Name = name
			}
		}
	}
	return columns
}

// heading is the column's name for readers, in their spelling.
func (c Column) heading() string {
	spelled := strings.NewReplacer("gpu_hours", "gpu-hours", "sha256", "sha-256").Replace(c.Name)
	return strings.ToUpper(strings.ReplaceAll(spelled, "_", " "))
}

// cellRunes is the longest text that a terminal's column has room for: a GPU's
// UUID fits.
const cellRunes = 40

// Table is an answer of rows. Cells are in the form that scripts get.
type Table struct {
	Columns []Column
	Rows    [][]string
	// show turns a cell into what the terminal shows; nil shows it as it is.
	show func(column int, cell string) string
}

// Write prints the table; colour is for headings on a terminal.
func (t Table) Write(w io.Writer, f string, colour bool) error {
	var err error
	switch f {
	case AsCSV:
		err = t.writeCSV(w)
	case AsJSON:
		err = t.writeJSON(w)
	default:
		_, err = io.WriteString(w, t.Text(colour))
	}
	if err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// writeCSV prints RFC 4180 with a header. Names that came over the wire can't
// become formulas; numbers stay as they are.
func (t Table) writeCSV(w io.Writer) error {
	header := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = c.Name
	}
	records := [][]string{header}
	for _, row := range t.Rows {
		record := slices.Clone(row)
		for i, c := range t.Columns {
			if !c.Number {
				record[i] = usage.TextCell(record[i])
			}
		}
		records = append(records, record)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// writeJSON prints an array of objects, keys in the order of the columns.
func (t Table) writeJSON(w io.Writer) error {
	var b strings.Builder
	b.WriteString("[")
	for i, row := range t.Rows {
		b.WriteString(separator(i, "\n  {"))
		for j, c := range t.Columns {
			cell, err := jsonCell(c, row[j])
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s%q: %s", separator(j, ""), c.Name, cell)
		}
		b.WriteString("}")
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func separator(i int, next string) string {
	if i == 0 {
		return next
	}
	if next == "" {
		return ", "
	}
	return "," + next
}

func jsonCell(c Column, cell string) (string, error) {
	if c.Number && cell == "" {
		return "null", nil
	}
	if c.Number {
		if !json.Valid([]byte(cell)) {
			return "", fmt.Errorf("column %s: %q is not a number", c.Name, cell)
		}
		if !c.exact {
			return cell, nil
		}
	}
	text, err := json.Marshal(cell)
	return string(text), err
}

// Text is the table for a terminal: a header in bold, two spaces between
// columns, and no space at the end of a line.
func (t Table) Text(colour bool) string {
	header := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = c.heading()
	}
	lines := [][]string{header}
	for _, row := range t.Rows {
		shown := slices.Clone(row)
		for i := range shown {
			if t.show != nil {
				shown[i] = t.show(i, shown[i])
			}
			if t.Columns[i].exact {
				shown[i] = Grouped(shown[i])
			}
			shown[i] = Printable(shown[i])
			if !t.Columns[i].Wide {
				shown[i] = cut(shown[i])
			}
		}
		lines = append(lines, shown)
	}
	widths := make([]int, len(t.Columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, line := range lines {
		text := t.line(line, widths)
		if i == 0 {
			text = Bold(text, colour)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

func (t Table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.Columns[i].Number {
			b.WriteString(pad + cell + "  ")
		} else {
			b.WriteString(cell + pad + "  ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut shortens a text to what a column holds.
func cut(s string) string {
	if runes := []rune(s); len(runes) > cellRunes {
		return string(runes[:cellRunes-1]) + "…"
	}
	return s
}

// Printable keeps names that came over the wire from steering the terminal:
// controls and line separators become visible, format characters, which have no
// width and may turn the reading order around, are dropped.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			return '�'
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// PrintableLines is a text of several lines made printable.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Bold wraps s in an SGR sequence (ECMA-48). Sayf and Writef would remove it: Session.Heading prints it.
func Bold(s string, colour bool) string {
	if !colour {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Colour is for terminals only, and not where NO_COLOR (no-color.org) or a dumb
// terminal asks for none.
func Colour(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
