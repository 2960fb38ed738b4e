// Package jsonstream reads large JSON answers of servers value by value in bounded memory. A text that exceeds a
// limit is ErrTooLarge; if a text is truncated, ReadErr is the reader's error.
package jsonstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge means that a text, or one value in it, exceeds its limit.
var ErrTooLarge = errors.New("the answer is too large")

// Limits are in bytes; 0: none.
type Limits struct {
	Text  int64
	Value int64 // of a value that is decoded as a whole
}

// Decoder reads one text.
type Decoder struct {
	*json.Decoder
	in *bounded
}

// New returns a decoder of a text.
func New(from io.Reader, limits Limits) *Decoder {
	d := &Decoder{in: &bounded{from: from, limits: limits}}
	d.Decoder = json.NewDecoder(d.in)
	d.in.taken = d.InputOffset
	return d
}

// ReadErr is the reader's error that ended the text early; nil: none.
func (d *Decoder) ReadErr() error { return d.in.err }

// BytesRead is the number of bytes read so far.
func (d *Decoder) BytesRead() int64 { return d.in.read }

// Elements reads an array and calls each before every element; null has none.
func (d *Decoder) Elements(each func() error) error { return d.inside('[', each) }

// Members reads an object and calls each with the name of every member before its value; null has none.
func (d *Decoder) Members(each func(name string) error) error {
	return d.inside('{', func() error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // guaranteed by the decoder
		return each(name)
	})
}

func (d *Decoder) inside(open json.Delim, each func() error) error {
	token, err := d.Token()
	if err != nil || token == nil {
		return err
	}
	if token != open {
		return fmt.Errorf("got %v, want %s", token, open)
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// Skip skips a value.
func (d *Decoder) Skip() error { return d.Decode(&skipped{}) }

type skipped struct{}

func (skipped) UnmarshalJSON([]byte) error { return nil }

// End reads to the text's end, so that the HTTP connection can be reused; anything but white space is an error.
func (d *Decoder) End() error {
	_, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("unexpected data after the answer")
	}
	return err
}

// bounded limits the bytes that the decoder can read.
type bounded struct {
	from   io.Reader
	limits Limits
	taken  func() int64 // bytes that the decoder has consumed
	read   int64
	err    error
}

// Read fills p as far as allowed. The decoder scans its buffered part of a value again after each read, and doubles
// the buffer for the next.
func (b *bounded) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		room := int64(len(p) - n)
		switch waiting := b.read - b.taken(); {
		case b.limits.Text > 0 && b.read > b.limits.Text:
			err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.limits.Text)
		case b.limits.Value > 0 && waiting > b.limits.Value:
			err = fmt.Errorf("%w: one value has more than %d bytes", ErrTooLarge, b.limits.Value)
		default:
			if b.limits.Text > 0 {
				room = min(room, b.limits.Text+1-b.read)
			}
			var more int
			more, err = b.from.Read(p[n : n+int(room)])
			n, b.read = n+more, b.read+int64(more)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
