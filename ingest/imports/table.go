package imports

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gputally/gputally/internal/bounded"
)

// row is one row of a file; get returns false if it has no such field.
type row struct {
	line int
	get  func(column string) (string, bool)
}

// rowError reports a row that can't be read; the rows after it can.
type rowError struct {
	line int
	err  error
}

func (e *rowError) Error() string { return e.err.Error() }

// table is a file of rows: CSV with a header, or JSON lines.
type table struct {
	header []string // nil: JSON lines
	next   func() (row, error)
}

// plain unpacks gzip and removes a byte order mark.
func plain(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		in = bufio.NewReaderSize(unpacked, 64<<10)
	}
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3) // cannot fail: Peek has read these bytes
	}
	return in, nil
}

// openTable reads the header. delimiter 0: chosen by the header.
func openTable(r io.Reader, delimiter rune) (*table, error) {
	in, err := plain(r)
	if err != nil {
		return nil, err
	}
	start, _ := in.Peek(1 << 10)
	if bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")) {
		return jsonTable(in), nil
	}
	if delimiter == 0 {
		delimiter = sniff(start)
	}
	lines := bounded.NewCSV(in)
	lines.Comma, lines.FieldsPerRecord, lines.ReuseRecord = delimiter, -1, true
	header, err := lines.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	t := &table{header: make([]string, len(header))}
	index := make(map[string]int, len(header))
	for i, name := range header {
		name = strings.TrimSpace(name)
		if _, twice := index[name]; twice && name != "" {
			return nil, fmt.Errorf("read header: there are two columns %q", name)
		}
		t.header[i], index[name] = name, i
	}
	t.next = func() (row, error) { return csvRow(lines, index, len(t.header)) }
	return t, nil
}

// sniff returns the delimiter that is most frequent in the header.
func sniff(start []byte) rune {
	header, _, _ := bytes.Cut(start, []byte("\n"))
	best, most := ',', bytes.Count(header, []byte(","))
	for _, c := range ";\t|" {
		if n := bytes.Count(header, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best
}

func csvRow(lines *bounded.CSV, index map[string]int, width int) (row, error) {
	fields, err := lines.Read()
	var wrong *csv.ParseError
	if errors.As(err, &wrong) {
		return row{}, &rowError{wrong.StartLine, wrong.Err}
	}
	if err != nil {
		return row{}, err
	}
	line, _ := lines.FieldPos(0)
	if len(fields) != width {
		return row{}, &rowError{line, fmt.Errorf("%d fields, but the header has %d", len(fields), width)}
	}
	return row{line, func(column string) (string, bool) {
		i, ok := index[column]
		if !ok {
			return "", false
		}
		return fields[i], true
	}}, nil
}

func jsonTable(in *bufio.Reader) *table {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), bounded.MaxRecord)
	line := 0
	return &table{next: func() (row, error) {
		for lines.Scan() {
			line++
			if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
				return jsonRow(line, text)
			}
		}
		if err := lines.Err(); err != nil {
			return row{}, fmt.Errorf("read line %d: %w", line+1, err)
		}
		return row{}, io.EOF
	}}
}

func jsonRow(line int, text []byte) (row, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil || fields == nil {
		return row{}, &rowError{line, errors.New("not a JSON object")}
	}
	texts := make(map[string]string, len(fields))
	for name, value := range fields {
		var err error
		if texts[name], err = jsonText(value); err != nil {
			return row{}, &rowError{line, fmt.Errorf("%s: %w", name, err)}
		}
	}
	return row{line, func(column string) (string, bool) { text, ok := texts[column]; return text, ok }}, nil
}

// jsonText is a JSON value as CSV would contain it; a list becomes its values with
// commas.
func jsonText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			if _, nested := one.([]any); nested {
				return "", errors.New("must not be a list of lists")
			}
			text, err := jsonText(one)
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	default:
		return "", nil // an object has no text form; no column can ask for one
	}
}
