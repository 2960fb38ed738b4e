package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// scratches are buffers for decompression; the result is copied to its exact size.
var scratches = sync.Pool{New: func() any { b := make([]byte, 0, 1<<20); return &b }}

// zstdDecoder writes into the given buffer and allocates no window, whatever size a frame claims.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
})

// inflate decompresses the records of a batch, at most maxBatchBytes; more is errTooLarge. With an error it returns
// what was decompressed before. Uncompressed records are src itself.
func inflate(codec uint16, src []byte) ([]byte, error) {
	if codec == uint16(compress.None) {
		if len(src) > maxBatchBytes {
			return src, fmt.Errorf("records have %d bytes, limit %d: %w", len(src), maxBatchBytes, errTooLarge)
		}
		return src, nil
	}
	scratch, ok := scratches.Get().(*[]byte)
	if !ok {
		scratch = new([]byte)
	}
	defer scratches.Put(scratch)
	out, err := decompress(codec, src, (*scratch)[:0])
	if cap(out) > cap(*scratch) && cap(out) <= maxBatchBytes {
		*scratch = out
	}
	if err != nil {
		return bytes.Clone(out[:min(len(out), 2*keyKeptBytes)]), err
	}
	return bytes.Clone(out), nil
}

// decompress appends to out, which is empty.
func decompress(codec uint16, src, out []byte) ([]byte, error) {
	switch compress.Compression(codec) {
	case compress.Gzip, compress.Lz4:
		r := compress.Compression(codec).Codec().NewReader(bytes.NewReader(src))
		out, err := readAtMost(r, out)
		return out, errors.Join(err, r.Close())
	case compress.Snappy:
		return unsnap(src, out)
	case compress.Zstd:
		return unzstd(src, out)
	}
	return nil, fmt.Errorf("unknown compression codec %d", codec)
}

// grown returns buf with room for more bytes, or for size bytes if that is not 0.
func grown(buf []byte, size int) ([]byte, error) {
	if size > maxBatchBytes || cap(buf) >= maxBatchBytes {
		return buf, fmt.Errorf("records have more than %d bytes: %w", maxBatchBytes, errTooLarge)
	}
	room := min(max(4*cap(buf), size, 1<<16), maxBatchBytes)
	return append(make([]byte, 0, room), buf...), nil
}

func readAtMost(r io.Reader, out []byte) (_ []byte, err error) {
	for {
		if len(out) == cap(out) {
			if out, err = grown(out, 0); err != nil {
				return out, err
			}
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

func unzstd(src, out []byte) ([]byte, error) {
	decoder, err := zstdDecoder()
	if err != nil {
		return out, err
	}
	for {
		got, err := decoder.DecodeAll(src, out[:0])
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return got, err
		}
		if out, err = grown(out[:0], 0); err != nil {
			return got, err
		}
	}
}

// xerial is the header of snappy-java's block format; 8 bytes follow: version and oldest compatible version.
var xerial = []byte("\x82SNAPPY\x00")

func unsnap(src, out []byte) (_ []byte, err error) {
	if len(src) < 16 || !bytes.HasPrefix(src, xerial) {
		return unsnapBlock(src, out)
	}
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 || uint64(binary.BigEndian.Uint32(src)) > uint64(len(src)-4) {
			return out, fmt.Errorf("snappy: block is longer than the %d bytes that are left", len(src))
		}
		n := int(binary.BigEndian.Uint32(src))
		if out, err = unsnapBlock(src[4:4+n], out); err != nil {
			return out, err
		}
		src = src[4+n:]
	}
	return out, nil
}

func unsnapBlock(src, out []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return out, err
	}
	if n > cap(out)-len(out) {
		if out, err = grown(out, len(out)+n); err != nil {
			return out, err
		}
	}
	block, err := snappy.Decode(out[len(out):len(out)+n:cap(out)], src)
	if err != nil {
		return out, err
	}
	return append(out, block...), nil // the block is in place already
}
