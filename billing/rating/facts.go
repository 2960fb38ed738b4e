package rating

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/plural"
)

// factLine builds the lines of copies and freezes: JSON arrays, with the bytes of encoding/json without HTML escapes.
// A month has millions of them, so text without escapes is appended directly.
type factLine struct {
	text  []byte
	hour  time.Time // the hour of stamp
	stamp string
}

// begin starts a line.
func (l *factLine) begin(kind string) *factLine {
	l.text = appendText(append(l.text[:0], '['), kind)
	return l
}

// cell appends the value that of points to.
func (l *factLine) cell(of any) *factLine {
	l.text = append(l.text, ',')
	switch of := of.(type) {
	case *string:
		l.text = appendText(l.text, *of)
	case *int:
		l.text = strconv.AppendInt(l.text, int64(*of), 10)
	case *int64:
		l.text = strconv.AppendInt(l.text, *of, 10)
	case *decimal.Decimal:
		l.text = appendText(l.text, of.String())
	case *time.Time:
		if l.stamp == "" || !l.hour.Equal(*of) {
			l.hour, l.stamp = *of, of.UTC().Format(time.RFC3339)
		}
		l.text = appendText(l.text, l.stamp)
	}
	return l
}

// end returns the line, valid until the next call of begin.
func (l *factLine) end() []byte {
	l.text = append(l.text, "]\n"...)
	return l.text
}

// appendText appends a JSON string.
func appendText(to []byte, s string) []byte {
	if plain(s) {
		return append(append(append(to, '"'), s...), '"')
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // encoding a text can't fail
	return append(to, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// plain returns whether a text needs no escapes in JSON.
func plain[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// factReader reads the cells of one line in order.
type factReader struct {
	cells []json.RawMessage // unread cells of the line
	room  []json.RawMessage // reused for the cells of each line
	names map[string]string // by cell: a copy has few different texts
	hour  time.Time         // the hour of stamp
	stamp string
}

func newFactReader() *factReader { return &factReader{names: map[string]string{}} }

// read starts a line. Cells in the form that factLine appends directly are split here; encoding/json decodes all
// others, and reports errors.
func (c *factReader) read(line []byte) error {
	if c.cut(line) {
		return nil
	}
	c.cells = nil
	if err := json.Unmarshal(line, &c.cells); err != nil {
		return fmt.Errorf("not a JSON array: %w", err)
	}
	return nil
}

func (c *factReader) cut(line []byte) bool {
	c.room = c.room[:0]
	rest, ok := bytes.CutPrefix(line, []byte("["))
	for ok {
		n := plainCell(rest)
		if n == 0 || n == len(rest) {
			return false
		}
		c.room = append(c.room, json.RawMessage(rest[:n]))
		if rest[n] == ']' {
			c.cells = c.room
			return n+1 == len(rest)
		}
		ok = rest[n] == ','
		rest = rest[n+1:]
	}
	return false
}

// plainCell is the length of a plain string or an integer; 0: neither.
func plainCell(text []byte) int {
	if len(text) > 0 && text[0] == '"' {
		end := bytes.IndexByte(text[1:], '"')
		if end < 0 || !plain(text[1:1+end]) {
			return 0
		}
		return end + 2
	}
	digits := bytes.TrimPrefix(text, []byte("-"))
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && digits[0] == '0' {
		return 0
	}
	return len(text) - len(digits) + n
}

// next decodes the next cell into the value that to points to.
func (c *factReader) next(name string, to any) (err error) {
	if len(c.cells) == 0 {
		return fmt.Errorf("%s is missing", name)
	}
	cell := c.cells[0]
	c.cells = c.cells[1:]
	switch to := to.(type) {
	case *string:
		*to, err = c.text(name, cell)
	case *int64:
		*to, err = number64(name, cell)
	case *int:
		var n int64
		n, err = number64(name, cell)
		*to = int(n)
	case *time.Time:
		*to, err = c.at(name, cell)
	case *decimal.Decimal:
		*to, err = c.amount(name, cell)
	}
	return err
}

func (c *factReader) text(name string, cell json.RawMessage) (string, error) {
	if known, ok := c.names[string(cell)]; ok {
		return known, nil
	}
	text, err := decoded[string](name, cell)
	if err == nil {
		c.names[string(cell)] = text
	}
	return text, err
}

func number64(name string, cell json.RawMessage) (int64, error) {
	if n, err := strconv.ParseInt(string(cell), 10, 64); err == nil {
		return n, nil
	}
	return decoded[int64](name, cell)
}

// decoded decodes a cell by encoding/json.
func decoded[T any](name string, cell json.RawMessage) (value T, err error) {
	if err = json.Unmarshal(cell, &value); err != nil {
		err = fmt.Errorf("%s %s: %w", name, cell, err)
	}
	return value, err
}

// at decodes an hour's cell.
func (c *factReader) at(name string, cell json.RawMessage) (time.Time, error) {
	text, err := c.text(name, cell)
	if err != nil || text == c.stamp && text != "" {
		return c.hour, err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !at.Equal(at.Truncate(time.Hour)) {
		return at, fmt.Errorf("%s %q is not the start of a UTC hour", name, text)
	}
	c.hour, c.stamp = at.UTC(), text
	return c.hour, nil
}

func (c *factReader) amount(name string, cell json.RawMessage) (decimal.Decimal, error) {
	text, err := decoded[string](name, cell)
	if err != nil {
		return decimal.Zero, err
	}
	amount, err := decimal.NewFromString(text)
	if err != nil {
		return amount, fmt.Errorf("%s %q is not a decimal", name, text)
	}
	return amount, nil
}

// end returns an error if there are unread cells.
func (c *factReader) end() error {
	if len(c.cells) > 0 {
		return fmt.Errorf("%s too many", plural.Of(len(c.cells), "cell"))
	}
	return nil
}
