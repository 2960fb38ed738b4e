package podresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// podPage is one answer to a question for pods.
type podPage struct {
	next  string // continues the list; empty: nothing follows
	items []podItem
}

// decodePods reads a PodList pod by pod, so that no more than one of them is in
// memory with its annotations and its spec, which tenants make as large as they
// like. Of labels the configured ones are kept.
func (c Config) decodePods(answer io.Reader) (podPage, error) {
	in := &metered{from: answer}
	d := podDecoder{Decoder: json.NewDecoder(in), in: in, cfg: c}
	if err := d.list(); err != nil {
		return podPage{}, err
	}
	if d.kind != "PodList" {
		return podPage{}, fmt.Errorf("answer is of kind %q, want PodList", d.kind)
	}
	return d.page, nil
}

// metered refuses to read more than objectMaxBytes for one value.
type metered struct {
	from      io.Reader
	bytes     int    // since the last value
	beginning []byte // of all, for errors
}

func (m *metered) Read(p []byte) (int, error) {
	if m.bytes > objectMaxBytes {
		return 0, fmt.Errorf("is larger than %d bytes", objectMaxBytes)
	}
	n, err := m.from.Read(p)
	m.bytes += n
	m.beginning = append(m.beginning, p[:min(n, 80-len(m.beginning))]...)
	return n, err
}

// podDecoder walks through a PodList, whatever the order of its fields.
type podDecoder struct {
	*json.Decoder
	in   *metered
	cfg  Config
	kind string
	page podPage
}

func (d *podDecoder) list() error {
	first, err := d.Token()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || (err == nil && first != json.Delim('{')) {
		return fmt.Errorf("answer is not a JSON object: %q", d.in.beginning)
	}
	for err == nil && d.More() {
		err = d.field()
	}
	if err == nil {
		_, err = d.Token() // the end of the object
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("decode PodList: %w", err)
	}
	// To the body's end, so that the connection serves the next question too.
	switch extra, err := d.Token(); {
	case err == nil:
		return fmt.Errorf("decode PodList: %v follows its end", extra)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("decode PodList: after its end: %w", err)
	}
	return nil
}

func (d *podDecoder) field() error {
	name, err := d.Token()
	if err != nil {
		return err
	}
	switch name {
	case "kind":
		return d.value("kind", &d.kind)
	case "metadata":
		var list struct {
			Continue string `json:"continue"`
		}
		err := d.value("metadata", &list)
		d.page.next = list.Continue
		return err
	case "items":
		return d.items()
	}
	var ignored json.RawMessage
	return d.value(fmt.Sprint(name), &ignored)
}

// items decodes the pods; null is one way to write that there are none.
func (d *podDecoder) items() error {
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('[') {
		return fmt.Errorf("items begins with %v, want a list", first)
	}
	for d.More() {
		var p podItem
		if err := d.value(fmt.Sprintf("items[%d]", len(d.page.items)), &p); err != nil {
			return err
		}
		p.Metadata.Labels = d.cfg.configured(p.Metadata.Labels)
		d.page.items = append(d.page.items, p)
	}
	_, err = d.Token() // the end of the list
	return err
}

func (d *podDecoder) value(name string, into any) error {
	d.in.bytes = 0
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
