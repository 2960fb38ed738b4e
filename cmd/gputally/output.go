package main

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
	"github.com/spf13/cobra"

	"github.com/gputally/gputally/internal/usage"
)

// Ways to print an answer.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputCSV   = "csv"
)

// output is the flag --output; it refuses any other word.
type output string

func (o *output) String() string { return string(*o) }

// Type is what help calls the flag's value.
func (o *output) Type() string { return "FORMAT" }

// Set takes table, json or csv.
func (o *output) Set(text string) error {
	if !slices.Contains([]string{outputTable, outputJSON, outputCSV}, text) {
		return fmt.Errorf("want table, json or csv")
	}
	*o = output(text)
	return nil
}

func outputFlag(cmd *cobra.Command) *output {
	o := output(outputTable)
	cmd.Flags().VarP(&o, "output", "o", "print the answer as `FORMAT`: table, json or csv")
	return &o
}

// column is a table's column: name heads it in CSV and JSON, and in capitals on
// the terminal. Numbers are right-aligned there, and bare in JSON; of exact
// ones, such as money, thousands are set apart there, and JSON has a string,
// which no reader takes for a float. Text that comes from outside is cut there,
// unless the column is wide.
type column struct {
	name   string
	number bool
	exact  bool
	wide   bool
}

func exactColumn(name string) column { return column{name: name, number: true, exact: true} }

// heading is the column's name for readers, in their spelling.
func (c column) heading() string {
	spelled := strings.NewReplacer("gpu_hours", "gpu-hours", "sha256", "sha-256").Replace(c.name)
	return strings.ToUpper(strings.ReplaceAll(spelled, "_", " "))
}

// cellRunes is the longest text that a terminal's column has room for: a GPU's
// UUID fits.
const cellRunes = 40

// table is an answer of rows. Cells are in the form that scripts get.
type table struct {
	columns []column
	rows    [][]string
	// show turns a cell into what the terminal shows; nil shows it as it is.
	show func(column int, cell string) string
}

func (t table) write(w io.Writer, o output, colour bool) error {
	var err error
	switch o {
	case outputCSV:
		err = t.writeCSV(w)
	case outputJSON:
		err = t.writeJSON(w)
	default:
		_, err = io.WriteString(w, t.text(colour))
	}
	if err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// writeCSV prints RFC 4180 with a header. Names that came over the wire can't
// become formulas; numbers stay as they are.
func (t table) writeCSV(w io.Writer) error {
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.name
	}
	records := [][]string{header}
	for _, row := range t.rows {
		record := slices.Clone(row)
		for i, c := range t.columns {
			if !c.number {
				record[i] = usage.TextCell(record[i])
			}
		}
		records = append(records, record)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// writeJSON prints an array of objects, keys in the order of the columns.
func (t table) writeJSON(w io.Writer) error {
	var b strings.Builder
	b.WriteString("[")
	for i, row := range t.rows {
		b.WriteString(separator(i, "\n  {"))
		for j, c := range t.columns {
			cell, err := jsonCell(c, row[j])
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s%q: %s", separator(j, ""), c.name, cell)
		}
		b.WriteString("}")
	}
	if len(t.rows) > 0 {
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

func jsonCell(c column, cell string) (string, error) {
	if c.number && cell == "" {
		return "null", nil
	}
	if c.number {
		if !json.Valid([]byte(cell)) {
			return "", fmt.Errorf("column %s: %q is not a number", c.name, cell)
		}
		if !c.exact {
			return cell, nil
		}
	}
	text, err := json.Marshal(cell)
	return string(text), err
}

// text is the table for a terminal: a header in bold, two spaces between
// columns, and no space at the end of a line.
func (t table) text(colour bool) string {
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.heading()
	}
	lines := [][]string{header}
	for _, row := range t.rows {
		shown := slices.Clone(row)
		for i := range shown {
			if t.show != nil {
				shown[i] = t.show(i, shown[i])
			}
			if t.columns[i].exact {
				shown[i] = grouped(shown[i])
			}
			shown[i] = printable(shown[i])
			if !t.columns[i].wide {
				shown[i] = cut(shown[i])
			}
		}
		lines = append(lines, shown)
	}
	widths := make([]int, len(t.columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, line := range lines {
		text := t.line(line, widths)
		if i == 0 {
			text = bold(text, colour)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

func (t table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.columns[i].number {
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

// printable keeps names that came over the wire from steering the terminal:
// controls and line separators become visible, format characters, which have no
// width and may turn the reading order around, are dropped.
func printable(s string) string {
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

// printableLines is a text of several lines made printable.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// grouped puts a space between thousands of a plain decimal: "1 234 567.5".
func grouped(number string) string {
	whole, fraction, point := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	if point {
		b.WriteString("." + fraction)
	}
	return sign + b.String()
}

// bold wraps s in an SGR sequence (ECMA-48).
func bold(s string, colour bool) string {
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

// colour is for terminals only, and not where NO_COLOR (no-color.org) or a dumb
// terminal asks for none.
func colour(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
