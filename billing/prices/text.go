package prices

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// text is a file's bytes, found by the lines and columns of YAML nodes.
type text struct {
	data  []byte
	lines []int // where each begins
}

func newText(data []byte) text {
	t := text{data: data, lines: []int{0}}
	for i, b := range data {
		if b == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// offset is that of a line and column, both from 1; columns count characters.
func (t text) offset(line, column int) int {
	if line < 1 || line > len(t.lines) {
		return len(t.data)
	}
	at := t.lines[line-1]
	for range column - 1 {
		_, size := utf8.DecodeRune(t.data[at:])
		at += size
	}
	return at
}

// endOfQuoted is the offset after the quoted scalar at from; false when there
// is none.
func (t text) endOfQuoted(from int) (int, bool) {
	if from >= len(t.data) {
		return from, false
	}
	quote := t.data[from]
	if quote != '"' && quote != '\'' {
		return from, false
	}
	for i := from + 1; i < len(t.data); i++ {
		switch {
		case quote == '"' && t.data[i] == '\\':
			i++
		case t.data[i] == quote:
			return i + 1, true
		}
	}
	return from, false
}

// endOfFlow is the offset after the flow mapping at from; false when there is
// none.
func (t text) endOfFlow(from int) (int, bool) {
	depth := 0
	for i := from; i < len(t.data); i++ {
		switch t.data[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1, true
			}
		case '"', '\'':
			end, ok := t.endOfQuoted(i)
			if !ok {
				return from, false
			}
			i = end - 1
		case '#':
			if strings.ContainsRune(" \t\n", rune(t.data[i-1])) {
				end, _ := t.endOfLine(i)
				i = end
			}
		}
		if depth == 0 {
			return from, false
		}
	}
	return from, false
}

// endOfLine is where a line ends and what ends it.
func (t text) endOfLine(from int) (end int, newline string) {
	length := bytes.IndexByte(t.data[from:], '\n')
	if length < 0 {
		return len(t.data), "\n"
	}
	end = from + length
	if end > from && t.data[end-1] == '\r' {
		return end - 1, "\r\n"
	}
	return end, "\n"
}

// apply carries out edits that don't overlap.
func (t text) apply(edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, t.data[at:e.from]...)
		out = append(out, e.with...)
		at = e.to
	}
	return append(out, t.data[at:]...)
}
