package invoice

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// copies keeps the usage copies of one pass over a month, of all tenants at
// once, packed to some fifteenth: as text only one of them is in memory.
type copies struct {
	packer *flate.Writer
	of     map[string]*packedCopy
}

func newCopies() (*copies, error) {
	packer, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	return &copies{packer: packer, of: map[string]*packedCopy{}}, err
}

// tenant begins a copy.
func (c *copies) tenant(name string) io.Writer {
	c.of[name] = &packedCopy{packer: c.packer}
	return c.of[name]
}

// text is a tenant's copy.
func (c *copies) text(name string) ([]byte, error) {
	packed := c.of[name]
	if packed == nil {
		return nil, fmt.Errorf("read usage copy of tenant %q: there is none", name)
	}
	text, err := packed.text()
	if err != nil {
		return nil, fmt.Errorf("unpack usage copy of tenant %q: %w", name, err)
	}
	return text, nil
}

// packBytes is how much of a copy waits until it is packed, as a DEFLATE stream
// (RFC 1951) of its own: all copies share one packer.
const packBytes = 32 << 10

type packedCopy struct {
	packer *flate.Writer
	open   []byte
	packed bytes.Buffer
	bytes  int
}

func (c *packedCopy) Write(text []byte) (int, error) {
	c.open = append(c.open, text...)
	c.bytes += len(text)
	if len(c.open) < packBytes {
		return len(text), nil
	}
	return len(text), c.pack()
}

func (c *packedCopy) pack() error {
	if len(c.open) == 0 {
		return nil
	}
	c.packer.Reset(&c.packed)
	_, err := c.packer.Write(c.open)
	c.open = c.open[:0]
	return errors.Join(err, c.packer.Close())
}

func (c *packedCopy) text() ([]byte, error) {
	if err := c.pack(); err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, c.bytes+bytes.MinRead))
	for packed := bytes.NewReader(c.packed.Bytes()); packed.Len() > 0; {
		if _, err := text.ReadFrom(flate.NewReader(packed)); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}
