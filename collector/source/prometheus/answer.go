package prometheus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gputally/gputally/internal/jsonstream"
)

// Bounds of an answer's memory, whatever its length: a few bytes such as {} take a hundred times their size.
const (
	// maxValueBytes is the longest series, or other value, as JSON: 150,000 samples.
	maxValueBytes = 4 << 20
	// maxLabelBytes is the longest set of labels as JSON.
	maxLabelBytes = 64 << 10
	// maxHeldBytes bounds the memory of all series of an answer, counted as: a series, a label in addition to its
	// text, a sample.
	maxHeldBytes = 256 << 20
	seriesBytes  = 400
	labelBytes   = 64
	pointBytes   = 16
)

// answer is the envelope of the HTTP API (Prometheus, "HTTP API", format overview); isPartial is VictoriaMetrics'.
type answer struct {
	status, errorType, message string
	warnings                   int
	partial                    bool
}

// readAnswer reads an answer value by value without keeping its text; data reads the field data.
func readAnswer(d *jsonstream.Decoder, data func() error) (a answer, err error) {
	err = d.Members(func(key string) error {
		switch key {
		case "status":
			return d.Decode(&a.status)
		case "errorType":
			return d.Decode(&a.errorType)
		case "error":
			return d.Decode(&a.message)
		case "isPartial":
			return d.Decode(&a.partial)
		case "warnings":
			return d.Elements(func() error {
				a.warnings++
				return d.Skip()
			})
		case "data":
			return data()
		}
		return d.Skip()
	})
	if err == nil {
		err = d.End()
	}
	return a, err
}

// matrix is the answer to a range selector.
type matrix struct {
	resultType string
	series     []matrixSeries
}

type matrixSeries struct {
	Metric labels `json:"metric"`
	Values points `json:"values"`
}

func (m *matrix) read(d *jsonstream.Decoder) error {
	var memory held
	return d.Members(func(key string) error {
		switch key {
		case "resultType":
			return d.Decode(&m.resultType)
		case "result":
			return d.Elements(func() error {
				var s matrixSeries
				if err := d.Decode(&s); err != nil {
					return err
				}
				size := seriesBytes + pointBytes*len(s.Values)
				for name, value := range s.Metric {
					size += labelBytes + len(name) + len(value)
				}
				m.series = append(m.series, s)
				return memory.add(size)
			})
		}
		return d.Skip()
	})
}

// held is the estimated memory of an answer so far.
type held int

func (h *held) add(bytes int) error {
	if *h += held(bytes); *h > maxHeldBytes {
		return fmt.Errorf("%w: its series take more than %d bytes of memory; select fewer of them by --match",
			jsonstream.ErrTooLarge, maxHeldBytes)
	}
	return nil
}

// labels are a series' labels.
type labels map[string]string

// UnmarshalJSON refuses label sets over maxLabelBytes.
func (l *labels) UnmarshalJSON(text []byte) error {
	if len(text) > maxLabelBytes {
		return fmt.Errorf("%w: a series has %d bytes of labels, more than %d", jsonstream.ErrTooLarge, len(text),
			maxLabelBytes)
	}
	return json.Unmarshal(text, (*map[string]string)(l))
}

// point is a stored sample: [1700000000.123, "42.5"] in JSON.
type point struct {
	ms    int64
	value float64
}

// points are a series' samples.
type points []point

// leastPoint is the shortest sample with its comma: [1,1],
const leastPoint = 6

// UnmarshalJSON reads pairs of a time in seconds and a value in quotes. It doesn't use reflection, since an answer
// has some 100,000 of them; the decoder has checked that it is JSON.
func (p *points) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	rest, ok := bytes.CutPrefix(text, []byte("["))
	if !ok {
		return errors.New("samples are not an array")
	}
	*p = make(points, 0, min(bytes.Count(rest, []byte("[")), 1+len(rest)/leastPoint))
	for {
		open := bytes.IndexByte(rest, '[')
		if open < 0 {
			return nil
		}
		end := bytes.IndexByte(rest[open:], ']')
		if end < 0 {
			return errors.New("a sample is not closed")
		}
		one, err := parsePoint(rest[open+1 : open+end])
		if err != nil {
			return err
		}
		*p, rest = append(*p, one), rest[open+end+1:]
	}
}

func parsePoint(text []byte) (p point, err error) {
	at, value, ok := bytes.Cut(text, []byte(","))
	if !ok {
		return p, errors.New("a sample lacks a time or a value")
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
	if err != nil || math.Abs(seconds) > 1e12 {
		return p, errors.New("a sample's time is not a number of seconds")
	}
	if p.value, err = strconv.ParseFloat(string(bytes.Trim(value, "\" \t\r\n")), 64); err != nil {
		return p, errors.New("a sample's value is not a number")
	}
	p.ms = int64(math.Round(seconds * 1000))
	return p, nil
}
