package rating

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
)

// factLine makes the lines of copies and freezes: JSON arrays, in the bytes of
// encoding/json without escapes for HTML. A month has millions of them, so what
// needs no escape is written by hand.
type factLine struct {
	text  []byte
	hour  time.Time // the one that stamp is of
	stamp string
}

// begin starts a line.
func (l *factLine) begin(kind string) *factLine {
	l.text = appendText(append(l.text[:0], '['), kind)
	return l
}

func (l *factLine) at(hour time.Time) *factLine {
	if l.stamp == "" || !l.hour.Equal(hour) {
		l.hour, l.stamp = hour, hour.UTC().Format(time.RFC3339)
	}
	return l.name(l.stamp)
}

func (l *factLine) name(s string) *factLine {
	l.text = appendText(append(l.text, ','), s)
	return l
}

func (l *factLine) number(n int64) *factLine {
	l.text = strconv.AppendInt(append(l.text, ','), n, 10)
	return l
}

func (l *factLine) amount(d decimal.Decimal) *factLine { return l.name(d.String()) }

// end is the line, until the next one begins.
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
	_ = encoder.Encode(s) // a text always encodes
	return append(to, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// plain tells whether a text stands in JSON as it is.
func plain[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// factReader reads the cells of one line after the other, each in its order; a
// line's first error is kept.
type factReader struct {
	cells []json.RawMessage // left of the line
	room  []json.RawMessage // for the cells of any line
	err   error
	names map[string]string // by cell
	hour  time.Time         // the one that stamp is of
	stamp string
}

func newFactReader() *factReader { return &factReader{names: map[string]string{}} }

// read starts a line. What factLine writes by hand is cut by hand; encoding/json
// reads all else, and says what is wrong with it.
func (c *factReader) read(line []byte) error {
	c.err = nil
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

// plainCell is the length of a plain string or an integer; 0: neither is there.
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

// next is the next cell; nil: there is an error.
func (c *factReader) next(name string) json.RawMessage {
	if c.err != nil {
		return nil
	}
	if len(c.cells) == 0 {
		c.err = fmt.Errorf("%s is missing", name)
		return nil
	}
	cell := c.cells[0]
	c.cells = c.cells[1:]
	return cell
}

func (c *factReader) decode(name string, cell json.RawMessage, to any) {
	if err := json.Unmarshal(cell, to); err != nil {
		c.err = fmt.Errorf("%s %s: %w", name, cell, err)
	}
}

func (c *factReader) text(name string) (s string) {
	cell := c.next(name)
	if n := len(cell); n > 1 && cell[0] == '"' && plain(cell[1:n-1]) {
		return string(cell[1 : n-1])
	}
	if c.err == nil {
		c.decode(name, cell, &s)
	}
	return s
}

// name is a text of which a copy has few, each of them often.
func (c *factReader) name(name string) string {
	if len(c.cells) == 0 || c.err != nil {
		return c.text(name)
	}
	known, ok := c.names[string(c.cells[0])]
	if ok {
		c.cells = c.cells[1:]
		return known
	}
	cell := string(c.cells[0])
	if known = c.text(name); c.err == nil {
		c.names[cell] = known
	}
	return known
}

func (c *factReader) number(name string) (n int64) {
	cell := c.next(name)
	if c.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(cell), 10, 64)
	if err != nil {
		c.decode(name, cell, &n)
	}
	return n
}

// at is an hour's cell.
func (c *factReader) at() time.Time {
	text := c.name("hour")
	if c.err != nil || text == c.stamp && text != "" {
		return c.hour
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !at.Equal(at.Truncate(time.Hour)) {
		c.err = fmt.Errorf("hour %q is not the start of a UTC hour", text)
		return time.Time{}
	}
	c.hour, c.stamp = at.UTC(), text
	return c.hour
}

func (c *factReader) amount(name string) decimal.Decimal {
	text := c.text(name)
	amount, err := decimal.NewFromString(text)
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("%s %q is not a decimal", name, text)
	}
	return amount
}

// end fails where a cell was wrong, or one is left over.
func (c *factReader) end() error {
	if c.err == nil && len(c.cells) > 0 {
		return fmt.Errorf("%d cells too many", len(c.cells))
	}
	return c.err
}
