package rating

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gputally/gputally/internal/bounded"
)

// byteOrderMark is U+FEFF in UTF-8.
const byteOrderMark = "\ufeff"

// csvColumns are those of a usage file, in their order (prices.md, Cases).
var csvColumns = []string{"hour", "tenant", "project", "model", "profile", "profile_slices", "slices", "bucket", "slice_ms", "energy_mj"}

// ReadCSV reads a usage file for simulation: RFC 4180, the header is exactly
// the columns hour, tenant, project, model, profile, profile_slices, slices,
// bucket, slice_ms, energy_mj; a byte order mark before it, as spreadsheets
// write one, is skipped. Errors name line, column and value.
func ReadCSV(r io.Reader) ([]Row, error) {
	buffered := bufio.NewReader(r)
	if mark, err := buffered.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // they have been read already
	}
	reader := bounded.NewCSV(buffered)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("read usage: the file is empty")
	} else if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	if !slices.Equal(header, csvColumns) {
		return nil, fmt.Errorf("read usage: line 1: header is %q, want %q", strings.Join(header, ","), strings.Join(csvColumns, ","))
	}
	var rows []Row
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("read usage: %w", err)
		}
		row, err := parseRecord(record)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("read usage: line %d: %w", line, err)
		}
		rows = append(rows, row)
	}
}

func parseRecord(record []string) (Row, error) {
	hour, err := time.Parse(time.RFC3339, record[0])
	if err != nil {
		return Row{}, fmt.Errorf("hour %.60q is not an RFC 3339 time", record[0])
	}
	for i, cell := range record {
		if !utf8.ValidString(cell) {
			return Row{}, fmt.Errorf("%s %.60q is not UTF-8", csvColumns[i], cell)
		}
	}
	text := func(i int) string { return strings.Clone(record[i]) } // the cell alone would keep the record
	row := Row{Hour: hour.UTC(), Tenant: text(1), Project: text(2), Model: text(3), Profile: text(4), Bucket: text(7)}
	var numbers [4]int64
	for i, column := range []int{5, 6, 8, 9} {
		if column == 5 && record[column] == "" {
			continue // a whole GPU has no profile
		}
		bits := 64
		if column < 7 {
			bits = 16
		}
		if numbers[i], err = strconv.ParseInt(record[column], 10, bits); errors.Is(err, strconv.ErrRange) {
			return Row{}, fmt.Errorf("%s %.60q is beyond %d bits", csvColumns[column], record[column], bits)
		} else if err != nil {
			return Row{}, fmt.Errorf("%s %.60q is not an integer", csvColumns[column], record[column])
		}
	}
	row.ProfileSlices, row.Slices = int(numbers[0]), int(numbers[1])
	row.SliceMS, row.EnergyMJ = numbers[2], numbers[3]
	return row, row.validate()
}
