package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/fault"
)

// The columns that are read.
const (
	timestampColumn = "timestamp"
	valueColumn     = "value"
)

// header are the columns that are written.
const header = timestampColumn + "," + valueColumn + ",anomaly_score,label\n"

// layouts of a timestamp; one without a zone is in UTC.
var layouts = []string{time.RFC3339, time.DateTime}

// Detect reads a CSV with the columns timestamp (RFC 3339, or YYYY-MM-DD HH:MM:SS) and
// value, other columns are ignored, and writes a row for each: timestamp and value as
// they were read, anomaly_score from 0 to 1 (six places) and label, which is 1 at an
// alarm. Memory is bounded whatever the length of the input. An error names row (the
// header is row 1), field and value; a header without the columns is fault.Invalid.
func Detect(ctx context.Context, w io.Writer, r io.Reader) (err error) {
	in := bounded.NewCSV(bounded.Reader(ctx, r))
	in.ReuseRecord, in.TrimLeadingSpace = true, true
	out := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush()) }()
	first, err := in.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("row 1: %w", err)
	}
	columns := make([]int, 0, 2)
	for _, name := range []string{timestampColumn, valueColumn} {
		at := slices.IndexFunc(first, func(cell string) bool {
			return strings.TrimSpace(strings.TrimPrefix(cell, "\ufeff")) == name
		})
		if at < 0 {
			return fault.New(fault.Invalid, "row 1: header %.200q has no column %s: want timestamp,value",
				strings.Join(first, ","), name)
		}
		columns = append(columns, at)
	}
	if _, err := out.WriteString(header); err != nil {
		return fmt.Errorf("write row 1: %w", err)
	}
	d, line := New(), []byte(nil)
	for row := 2; ; row++ {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			line, err = d.judge(line[:0], strings.TrimSpace(cells[columns[0]]), strings.TrimSpace(cells[columns[1]]))
		}
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
	}
}

// judge appends the row of a point to line.
func (d *Detector) judge(line []byte, timestamp, value string) ([]byte, error) {
	at, err := parseTime(timestamp)
	if err != nil {
		return nil, err
	}
	// What is written again has to be a number for every reader, so hexadecimal ones and words are refused.
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || strings.Trim(value, "+-.0123456789eE") != "" {
		return nil, fmt.Errorf("value %.100q: want a finite decimal number", value)
	}
	result, err := d.Add(at, number)
	if err != nil {
		return nil, err
	}
	line = append(append(append(append(line, timestamp...), ','), value...), ',')
	line = strconv.AppendFloat(line, result.Score, 'f', 6, 64)
	if result.Alarm {
		return append(line, ",1\n"...), nil
	}
	return append(line, ",0\n"...), nil
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("timestamp %.100q: want RFC 3339, or YYYY-MM-DD HH:MM:SS in UTC", text)
}
