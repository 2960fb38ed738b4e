// Package bounded reads files of any size with little memory, and as long as
// they are wanted: in goes a reader, out come its bytes until a context ends, or
// records of CSV none of which is longer than MaxRecord. What can go wrong: a
// record is longer, as after a quotation mark without its end; then nothing tells
// where the next one begins, and the file is refused as a whole.
package bounded

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
)

// MaxRecord bounds a line or a record of a file, in bytes.
const MaxRecord = 1 << 20

// readBytes is what is read between two looks at the context: also what a
// compressor made a thousand times smaller takes but milliseconds to parse.
const readBytes = 4 << 10

// Reader is r until ctx ends; from then on reading fails with ctx's error.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, r} }

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p[:min(len(p), readBytes)])
}

// CSV reads records of bounded length. Its embedded reader has the options.
type CSV struct {
	*csv.Reader
	in   *window
	line int // of the record read last
}

// NewCSV reads CSV from r.
func NewCSV(r io.Reader) *CSV {
	in := &window{r: r}
	return &CSV{Reader: csv.NewReader(in), in: in}
}

// Read is csv.Reader's, and fails where a record is longer than MaxRecord.
func (c *CSV) Read() ([]string, error) {
	c.in.left = MaxRecord
	fields, err := c.Reader.Read()
	if err == nil {
		c.line, _ = c.FieldPos(0)
	}
	if err != nil && c.in.left <= 0 {
		return nil, fmt.Errorf("after line %d: a record of more than %d bytes; does a quotation mark lack its end?",
			c.line, MaxRecord)
	}
	return fields, err
}

// window is a reader that gives out so many bytes more.
type window struct {
	r    io.Reader
	left int
}

func (w *window) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, io.ErrShortBuffer
	}
	n, err := w.r.Read(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}
