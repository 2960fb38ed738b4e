package exporter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/gputally/gputally/collector/source/field"
	"github.com/gputally/gputally/internal/wire"
)

// scan reads an exposition in the text format, line by line, into a reading. It stores only series with known names,
// and one map for all series with the same labels; exact duplicates are kept: folding removes them. Errors have the
// line's number but no text of it. # TYPE lines are ignored: they are sometimes wrong, and repeated if a field is
// configured under two names.
type scan struct {
	reading *reading
	sets    map[string]map[string]string // labels by their text
	held    int                          // approximate bytes
	maxHeld int
	nodes   map[string]bool // in Hostname labels
	gpus    map[[2]string]bool
	series  int
	unknown map[string]bool
}

func (r *reading) parse(body io.Reader, maxHeld int) (series int, err error) {
	p := scan{
		reading: r, maxHeld: maxHeld, sets: map[string]map[string]string{},
		nodes: map[string]bool{}, gpus: map[[2]string]bool{}, unknown: map[string]bool{},
	}
	lines := bufio.NewReaderSize(body, maxLineBytes)
	for n, read := 1, 0; ; n++ {
		line, err := lines.ReadSlice('\n')
		read += len(line)
		ended := len(bytes.TrimSpace(line)) == 0 || isComment(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return p.series, fmt.Errorf("line %d is longer than %d bytes", n, maxLineBytes)
		case err == io.EOF && ended:
			return p.series, nil
		case errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF:
			return p.series, fmt.Errorf("cut off at line %d, after %d bytes", n, read)
		case err != nil:
			return p.series, fmt.Errorf("read body: line %d, after %d bytes: %w", n, read, Unquoted(err))
		}
		if err := p.line(line[:len(line)-1]); err != nil {
			return p.series, fmt.Errorf("line %d, after %d bytes: %w", n, read, err)
		}
	}
}

func isComment(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) }

func (p *scan) line(line []byte) error {
	line = bytes.TrimLeft(bytes.TrimSuffix(line, []byte("\r")), " \t")
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '#':
		p.comment(line[1:])
		return nil
	}
	n := nameLength(line)
	if n == 0 {
		return errors.New("the line is not a series: it doesn't begin with a metric name")
	}
	series, known := field.ByName(string(line[:n]))
	if !known {
		p.see(line[:n])
	}
	labels, rest, err := splitLabels(bytes.TrimLeft(line[n:], " \t"))
	if err != nil {
		return err
	}
	value, err := valueOf(rest)
	if err != nil {
		return err
	}
	p.series++
	if !known {
		return eachLabel(labels, func(_, _ []byte) error { return nil })
	}
	set, err := p.labels(labels)
	if err != nil {
		return err
	}
	p.held += 64
	p.reading.samples = append(p.reading.samples, Sample{Series: series, Labels: set, Value: value})
	return p.check()
}

// comment records a HELP text with another unit than the table's.
func (p *scan) comment(text []byte) {
	text, ok := bytes.CutPrefix(bytes.TrimLeft(text, " \t"), []byte("HELP "))
	if !ok {
		return
	}
	name, help, _ := bytes.Cut(bytes.TrimLeft(text, " \t"), []byte(" "))
	if series, known := field.ByName(string(name)); known && series.HelpContradicts(string(help)) {
		if p.reading.distrusted == nil {
			p.reading.distrusted = map[string]bool{}
		}
		p.reading.distrusted[series.Name] = true
	}
}

// see records an unknown name that looks like a needed one.
func (p *scan) see(name []byte) {
	if len(name) > 128 || len(p.unknown) >= maxUnknown || p.unknown[string(name)] || field.Alike(string(name)) == nil {
		return
	}
	p.unknown[string(name)] = true
	p.reading.unknown = append(p.reading.unknown, string(name))
}

// labels returns the map of a label text, one for all series that have it.
func (p *scan) labels(text []byte) (map[string]string, error) {
	if set, ok := p.sets[string(text)]; ok {
		return set, nil
	}
	set := map[string]string{}
	err := eachLabel(text, func(name, value []byte) error {
		if _, twice := set[string(name)]; twice {
			return errors.New("the line has a label twice")
		}
		set[string(name)] = unescape(value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, value := range set {
		if value == "" { // an empty label is a missing one
			delete(set, name)
		}
	}
	p.sets[string(text)] = set
	p.held += 512 + 3*len(text)
	if gpu := GPUOf(set); gpu != "" && !hasAny(set, otherDevices) {
		node := NodeOf(set)
		if len(node) > wire.MaxNameBytes || len(gpu) > wire.MaxNameBytes {
			return nil, fmt.Errorf("a node's or GPU's name of %d bytes: at most %d are allowed",
				max(len(node), len(gpu)), wire.MaxNameBytes)
		}
		p.gpus[[2]string{node, gpu}] = true
		if node != "" {
			p.nodes[node] = true
		}
	}
	return set, nil
}

// check checks the limits of one target.
func (p *scan) check() error {
	t := p.reading.target
	switch {
	case len(p.nodes) > 1 && !t.trusts:
		return errors.New("the Hostname labels contain more than one node: " +
			"set trust_hostname: true and max_nodes for an endpoint of several nodes")
	case len(p.nodes) > t.maxNodes:
		return fmt.Errorf("the Hostname labels contain more than %d nodes: set max_nodes", t.maxNodes)
	case len(p.gpus) > t.maxGPUs:
		return fmt.Errorf("the answer lists more than %d GPUs: set max_gpus", t.maxGPUs)
	case p.held > p.maxHeld:
		return fmt.Errorf("the answer's series take more than %d bytes", p.maxHeld)
	}
	return nil
}

// nameLength is the length in bytes of a metric's or label's name at the beginning of a text.
func nameLength(text []byte) int {
	for i, c := range text {
		letter := c == '_' || c == ':' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

var errLabels = errors.New("the line's labels are not well formed")

// splitLabels splits {…} off a line's beginning.
func splitLabels(line []byte) (labels, rest []byte, err error) {
	if len(line) == 0 || line[0] != '{' {
		return nil, line, nil
	}
	quoted := false
	for i := 1; i < len(line); i++ {
		switch {
		case quoted && line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case !quoted && line[i] == '}':
			return line[1:i], line[i+1:], nil
		}
	}
	return nil, nil, errLabels
}

// eachLabel splits a label text; values are still escaped.
func eachLabel(text []byte, do func(name, value []byte) error) error {
	for {
		text = bytes.TrimLeft(text, " \t")
		if len(text) == 0 {
			return nil
		}
		n := nameLength(text)
		rest := bytes.TrimLeft(text[n:], " \t")
		if n == 0 || len(rest) == 0 || rest[0] != '=' {
			return errLabels
		}
		if rest = bytes.TrimLeft(rest[1:], " \t"); len(rest) == 0 || rest[0] != '"' {
			return errLabels
		}
		end := 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			return errLabels
		}
		if err := do(text[:n], rest[1:end]); err != nil {
			return err
		}
		text = bytes.TrimLeft(rest[end+1:], " \t")
		if len(text) > 0 && text[0] != ',' {
			return errLabels
		}
		text = bytes.TrimPrefix(text, []byte(","))
	}
}

func unescape(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value)
	}
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) {
			i++
			if value[i] == 'n' {
				out = append(out, '\n')
				continue
			}
		}
		out = append(out, value[i])
	}
	return string(out)
}

// valueOf parses a value; a timestamp after it is ignored.
func valueOf(text []byte) (float64, error) {
	fields := bytes.Fields(text)
	if len(fields) < 1 || len(fields) > 2 {
		return 0, errors.New("one value and at most a time must follow the labels")
	}
	v, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errors.New("the line's value is not a number")
	}
	if len(fields) == 2 {
		if _, err := strconv.ParseInt(string(fields[1]), 10, 64); err != nil {
			return 0, errors.New("the line's time is not a number")
		}
	}
	return v, nil
}
