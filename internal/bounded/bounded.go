// Package bounded reads files of any size with little memory, until a context ends: bytes, or records of CSV of at
// most MaxRecord. A longer record, as after a missing closing quotation mark, is an error: the start of the next
// record is then unknown, so the whole file is refused.
package bounded

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
)

// MaxRecord bounds a line or a record of a file, in bytes.
const MaxRecord = 1 << 20

// readBytes is what is read between two checks of the context; even compressed a thousandfold it takes only
// milliseconds to parse.
const readBytes = 4 << 10

// Reader returns a reader of r that fails with ctx's error once ctx has ended.
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

// CSV reads records of bounded length. Its embedded csv.Reader has the options.
type CSV struct {
	*csv.Reader
	in   *window
	line int // of the last record
}

// NewCSV returns a reader of CSV from r.
func NewCSV(r io.Reader) *CSV {
	in := &window{r: r}
	return &CSV{Reader: csv.NewReader(in), in: in}
}

// Read is csv.Reader's, but fails if a record is longer than MaxRecord.
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

// window is a reader that returns at most a number of further bytes.
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
