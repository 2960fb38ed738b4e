package hostiletest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/segmentio/kafka-go/compress"
)

// Offsets of the fields of a record batch, and the length of its header.
const (
	lengthAt, crcAt, attributesAt, lastDeltaAt, countAt = 8, 17, 21, 23, 57
	headerBytes                                         = 61
)

var codecs = []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd, 5, 6, 7}

// RecordBatch makes a record batch of values, in any codec, mostly with an error in the
// header or in a record.
func (g *Generator) RecordBatch(values ...[]byte) []byte {
	codec := pick(g, codecs)
	body := g.body(codec, values)
	b := make([]byte, headerBytes, headerBytes+len(body))
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(headerBytes-12+len(body))) //nolint:gosec // small
	b[16], b[attributesAt+1] = 2, byte(codec)
	binary.BigEndian.PutUint32(b[lastDeltaAt:], uint32(len(values)-1)) //nolint:gosec // small
	for _, at := range []int{27, 35} {
		binary.BigEndian.PutUint64(b[at:], uint64(g.now.UnixMilli())) //nolint:gosec // after 1970
	}
	copy(b[43:countAt], bytes.Repeat([]byte{0xff}, countAt-43))  // no producer
	binary.BigEndian.PutUint32(b[countAt:], uint32(len(values))) //nolint:gosec // small
	if g.percent(40) {                                           // a field of the header is random
		at := pick(g, []int{0, lengthAt, 12, 16, attributesAt, lastDeltaAt, 27, 35, 43, 51, 53, countAt})
		binary.BigEndian.PutUint32(b[at:], uint32(g.number())) //nolint:gosec // any number
	}
	b = append(b, body...)
	if g.percent(30) {
		copy(b[headerBytes:], g.damage(bytes.Clone(b[headerBytes:])))
	}
	if g.percent(90) {
		binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// body returns the records, compressed; sometimes a decompression bomb.
func (g *Generator) body(codec compress.Compression, values [][]byte) []byte {
	var body []byte
	for i, v := range values {
		r := g.varint([]byte{0, 0}, int64(i))
		r = append(g.varint(r, 1), 'n')
		r = append(g.varint(r, int64(len(v))), v...)
		r = g.varint(r, 0)
		body = append(g.varint(body, int64(len(r))), r...)
	}
	if codec == compress.None || codec > compress.Zstd {
		return body
	}
	if g.percent(3) {
		return g.bomb(codec)
	}
	return squeezed(codec, body)
}

// varint encodes the number, and sometimes another one.
func (g *Generator) varint(b []byte, n int64) []byte {
	if g.percent(3) {
		n = g.number()
	}
	return binary.AppendVarint(b, n)
}

// bomb is a record of 40 MiB of zeros.
func (g *Generator) bomb(codec compress.Compression) []byte {
	if g.bombs == nil {
		const size = 40 << 20
		body := binary.AppendVarint([]byte{0, 0, 0, 2, 'n'}, size)
		body = append(body, make([]byte, size+1)...)
		body = append(binary.AppendVarint(nil, int64(len(body))), body...)
		g.bombs = make([][]byte, len(codecs))
		for _, c := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
			g.bombs[c] = squeezed(c, body)
		}
	}
	return g.bombs[codec]
}

func squeezed(codec compress.Compression, body []byte) []byte {
	var out bytes.Buffer
	w := codec.Codec().NewWriter(&out)
	_, err := w.Write(body)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a buffer takes all
	}
	return out.Bytes()
}
