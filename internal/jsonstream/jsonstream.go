// Package jsonstream reads large JSON answers of servers value by value, in bounded
// memory: in goes a text as long as it may be, out come the values that somebody
// wants, one at a time. A text over a limit is ErrTooLarge; a text that ends early
// is its reader's error (ReadErr).
package jsonstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is a text, or one value in it, over its limit.
var ErrTooLarge = errors.New("the answer is too large")

// Limits in bytes; 0: none.
type Limits struct {
	Text  int64
	Value int64 // that is decoded whole
}

// Decoder reads one text.
type Decoder struct {
	*json.Decoder
	in *bounded
}

// New reads a text from its beginning.
func New(from io.Reader, limits Limits) *Decoder {
	d := &Decoder{in: &bounded{from: from, limits: limits}}
	d.Decoder = json.NewDecoder(d.in)
	d.in.taken = d.InputOffset
	return d
}

// ReadErr is why the text ended early; nil: it did not.
func (d *Decoder) ReadErr() error { return d.in.err }

// BytesRead is how much of the text was read so far.
func (d *Decoder) BytesRead() int64 { return d.in.read }

// Elements calls each before every element of an array, which it reads; null has
// none.
func (d *Decoder) Elements(each func() error) error { return d.inside('[', each) }

// Members calls each with the name of every member of an object before its value,
// which it reads; null has none.
func (d *Decoder) Members(each func(name string) error) error {
	return d.inside('{', func() error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder sees to it
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

// Skip passes over a value.
func (d *Decoder) Skip() error { return d.Decode(&skipped{}) }

type skipped struct{}

func (skipped) UnmarshalJSON([]byte) error { return nil }

// End reads to the text's end, so that an HTTP connection serves the next question,
// too; there must be nothing but space.
func (d *Decoder) End() error {
	_, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("there is more after the answer")
	}
	return err
}

// bounded is a text's bytes on the way to the decoder, as far as they may come.
type bounded struct {
	from   io.Reader
	limits Limits
	taken  func() int64 // what the decoder has done with
	read   int64
	err    error
}

// Read fills p where it can: the decoder looks anew at what it has of a value after
// each read, and gives twice as much room to the next.
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
