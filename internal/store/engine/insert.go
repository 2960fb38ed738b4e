package engine

import (
	"errors"
	"fmt"
	"io"
	"unsafe"
)

// insertChunkBytes is the size of a chunk of a body that is passed to the engine.
const insertChunkBytes = 1 << 20

// insert streams data in the format into an INSERT statement without data and returns the number of rows written.
// Data is never sent inline: the library would end the statement at a blank line in it. If reading fails nothing is
// acknowledged, but whole blocks that were sent before may be written.
func (c *conn) insert(sql, format string, params []param, data io.Reader) (rows uint64, err error) {
	stream := c.call(c.lib.insert, sql, format, params)
	if stream == nil {
		return 0, raise(codeCannotConnect, "the engine returned neither a stream nor an error")
	}
	defer c.lib.insertDestroy(stream)
	if text := c.lib.insertError(stream); text != "" {
		return 0, newException(text)
	}
	if err := c.appendAll(stream, data); err != nil {
		c.lib.insertCancel(stream)
		return 0, err
	}
	_, rows, err = c.take(c.lib.insertDone(stream))
	return rows, err
}

// appendAll stops at the first refused chunk without an error: insertDone returns it.
func (c *conn) appendAll(stream pointer, data io.Reader) error {
	buf := make([]byte, insertChunkBytes)
	for {
		n, err := fill(data, buf)
		if n > 0 && c.lib.insertAppend(stream, pointer(unsafe.SliceData(buf)), uintptr(n)) != 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read insert data: %w", err)
		}
	}
}

// fill reads until buf is full or the reader returns an error. Unlike io.ReadFull it distinguishes a truncated body
// from its regular end.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}
