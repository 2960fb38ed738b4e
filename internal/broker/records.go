package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"
)

// Reasons of Unreadable.
const (
	ReasonRecord   = "record"    // malformed
	ReasonTooLarge = "too_large" // exceeds a limit
)

// Unreadable is the reason why a message can't be processed.
type Unreadable struct {
	Reason string
	Err    error
	// To is set if a whole record batch can't be read: the message represents its offsets [Offset, To), Value is the
	// batch as the broker stores it, Key the key of its first record, if it can be read. Zero: one sound record that
	// is too large.
	To int64
}

// Limits of a record batch. Batches of our own producers have at most BatchBytes or one message of MaxMessageBytes,
// and BatchMessages records with half a dozen headers.
const (
	// maxBatchBytes bounds the decompressed records of a batch.
	maxBatchBytes = 32 << 20
	// maxBatchEntries bounds the number of records and headers: each takes some 100 bytes of memory, but may take 2
	// bytes in the batch.
	maxBatchEntries = 200_000
	// maxFetchedBytes is the size of messages at which a fetch stops decoding; the rest is fetched again.
	maxFetchedBytes = 16 << 20
	// messageBytes is the size of a Message without its bytes.
	messageBytes = 192
	// minRecordBytes is the size of an empty record: length, attributes, two deltas, key, value, headers.
	minRecordBytes = 7
	// keyKeptBytes bounds the key of an unreadable batch.
	keyKeptBytes = 4 << 10
)

var (
	errTooLarge = errors.New("too large")
	errChecksum = errors.New("checksum does not match")
)

// Positions in a record batch of format 2 (Kafka protocol, "Record Batch").
const (
	batchLengthAt     = 8
	batchLengthEnds   = 12 // the length counts from here
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchBodyAt       = 21 // the CRC covers everything from here
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchFirstTimeAt  = 27
	batchMaxTimeAt    = 35
	batchCountAt      = 57
	batchHeaderBytes  = 61

	// batchAppendTime is the attribute for LogAppendTime: the max timestamp is the broker's time of the append, and
	// the records' timestamps are to be ignored.
	batchAppendTime = 1 << 3
	// batchCodec is the mask of the attributes' compression bits.
	batchCodec = 7
	// batchControl is the attribute of transaction markers, which kafka-go doesn't export.
	batchControl = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is a record batch with its parsed header.
type batch struct {
	raw         []byte // header and all
	first, last int64  // offsets according to the header
	attributes  uint16
	firstTime   int64 // ms
	maxTime     int64
	count       int32
	err         error // malformed
}

// bare returns whether the batch has no records to deliver: it is a transaction's marker or empty.
func (b *batch) bare() bool { return b.err == nil && (b.attributes&batchControl != 0 || b.count == 0) }

// cutBatch splits the first batch off a record set. If the set ends within the batch, ok is false and rest is empty.
func cutBatch(set []byte) (b batch, rest []byte, ok bool) {
	if len(set) <= batchMagicAt {
		return b, nil, false
	}
	b.first = int64(binary.BigEndian.Uint64(set))
	b.last = b.first
	size := batchLengthEnds + int64(int32(binary.BigEndian.Uint32(set[batchLengthAt:])))
	magic := set[batchMagicAt]
	switch {
	case size <= batchMagicAt || magic == 2 && size < batchHeaderBytes:
		b.raw, b.err = set, fmt.Errorf("batch has a length of %d bytes, want %d or more", size-batchLengthEnds,
			batchHeaderBytes-batchLengthEnds)
		return b, nil, true
	case size > int64(len(set)):
		return b, nil, false
	}
	b.raw, rest = set[:size:size], set[size:]
	if magic != 2 {
		b.err = fmt.Errorf("batch has format %d, want 2", magic)
		return b, rest, true
	}
	b.last = b.first + int64(int32(binary.BigEndian.Uint32(set[batchLastDeltaAt:])))
	b.attributes = binary.BigEndian.Uint16(set[batchAttributesAt:])
	b.firstTime = int64(binary.BigEndian.Uint64(set[batchFirstTimeAt:]))
	b.maxTime = int64(binary.BigEndian.Uint64(set[batchMaxTimeAt:]))
	b.count = int32(binary.BigEndian.Uint32(set[batchCountAt:]))
	switch {
	case b.first < 0 || b.last < b.first-1 || b.last == b.first-1 && b.count != 0:
		b.err = fmt.Errorf("batch has invalid offsets: first %d, last %d", b.first, b.last)
		b.last = b.first
	case b.count < 0 || int64(b.count) > b.last-b.first+1:
		b.err = fmt.Errorf("batch has %d records for the offsets %d to %d", b.count, b.first, b.last)
	}
	return b, rest, true
}

// behind returns the next offset after a batch. Brokers use the last offset in its header; if that is wrong, the
// result is at most the start of the next batch or the partition's end, and always greater than at.
func (b *batch) behind(at int64, rest []byte, highWatermark int64) int64 {
	to := min(b.last+1, highWatermark)
	if next := nextFirst(rest); next > b.first {
		to = min(to, next)
	}
	return max(to, at+1, b.first+1)
}

// covers returns whether the batch contains an offset. If its header is malformed: whether no later batch does.
func (b *batch) covers(at int64, rest []byte) bool {
	if b.last >= at || b.err == nil {
		return b.last >= at
	}
	next := nextFirst(rest)
	return next <= b.first || next > at
}

// nextFirst is the first offset of a record set, even if it is cut off; -1: the set has none.
func nextFirst(set []byte) int64 {
	if len(set) < 8 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(set))
}

// time is the broker's time of the append if the batch has it; else the producer's time, limited to the times in the
// batch's header.
func (b *batch) time(delta int64) time.Time {
	if b.attributes&batchAppendTime != 0 {
		return time.UnixMilli(b.maxTime)
	}
	return time.UnixMilli(min(max(b.firstTime+delta, b.firstTime), max(b.maxTime, b.firstTime)))
}

// messages appends the batch's records from an offset on to msgs, each a copy of like with its own fields set, and
// returns their size in bytes. The batch is checked as a whole, first to last; if it is unreadable, nothing is
// appended.
func (b *batch) messages(msgs []Message, from int64, like Message,
	maxBytes int,
) (_ []Message, bytes int, bad *Unreadable) {
	if b.bare() {
		b.err = errors.New("batch is a transaction's marker, without records")
	}
	body, err := b.open()
	before := len(msgs)
	if err == nil {
		msgs, err = b.walk(msgs, body, from, like, maxBytes)
	}
	if err != nil {
		bad = &Unreadable{Reason: ReasonRecord, Err: err}
		if errors.Is(err, errTooLarge) {
			bad.Reason = ReasonTooLarge
		}
		like.Key = firstKey(body)
		like.Value, like.Bad, like.Time = b.raw, bad, b.time(0)
		return append(msgs[:before], like), len(b.raw), bad
	}
	return msgs, len(body) + messageBytes*(len(msgs)-before), nil
}

// open checks the header and decompresses the records. With an error it returns their beginning.
func (b *batch) open() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	want := binary.BigEndian.Uint32(b.raw[batchCRCAt:])
	if got := crc32.Checksum(b.raw[batchBodyAt:], castagnoli); got != want {
		return nil, fmt.Errorf("batch header has CRC %08x, its bytes have %08x: %w", want, got, errChecksum)
	}
	body, err := inflate(b.attributes&batchCodec, b.raw[batchHeaderBytes:])
	if err != nil {
		return body, fmt.Errorf("decompress batch of %d bytes: %w", len(b.raw), err)
	}
	if int64(b.count) > int64(len(body)/minRecordBytes) {
		return body, fmt.Errorf("batch has %d records in %d bytes", b.count, len(body))
	}
	if b.count > maxBatchEntries {
		return body, fmt.Errorf("batch has %d records, limit %d: %w", b.count, maxBatchEntries, errTooLarge)
	}
	return body, nil
}

func (b *batch) walk(msgs []Message, body []byte, from int64, like Message, maxBytes int) ([]Message, error) {
	msgs = slices.Grow(msgs, int(b.count))
	r, entries, last, headers := byteReader{rest: body}, int(b.count), int64(-1), []Header(nil)
	for i := range b.count {
		m, delta := like, int64(0)
		delta, m.Time, headers = r.record(b, &m, headers, maxBatchEntries-entries)
		switch {
		case r.err != nil:
			return msgs, fmt.Errorf("record %d of %d: %w", i, b.count, r.err)
		case delta <= last || delta > b.last-b.first:
			return msgs, fmt.Errorf("record %d of %d: offset delta is %d, want more than %d, at most %d", i, b.count, delta,
				last, b.last-b.first)
		}
		last, entries, m.Offset = delta, entries+len(m.Headers), b.first+delta
		if m.Offset < from {
			continue
		}
		if n := m.sizeBytes(); n > maxBytes {
			m.Bad = &Unreadable{
				Reason: ReasonTooLarge,
				Err:    fmt.Errorf("message has %d bytes, limit %d: %w", n, maxBytes, errTooLarge),
			}
		}
		msgs = append(msgs, m)
	}
	if len(r.rest) > 0 {
		return msgs, fmt.Errorf("batch has %d bytes behind its %d records", len(r.rest), b.count)
	}
	return msgs, nil
}

// byteReader decodes the primitive types of Kafka's protocol; after an error it returns zeros.
type byteReader struct {
	rest []byte
	err  error
}

// number reads a big-endian number of the given size in bytes.
func (r *byteReader) number(bytes int64) (v uint64) {
	for _, b := range r.take(bytes) {
		v = v<<8 | uint64(b)
	}
	return v
}

// count reads the length of an array or byte string; null counts as 0.
func (r *byteReader) count() int64 { return max(0, int64(int32(r.number(4)))) }

// text skips a nullable string.
func (r *byteReader) text() { r.take(max(0, int64(int16(r.number(2))))) }

// record reads the next record into m. Equal header names of the previous record are reused.
func (r *byteReader) record(b *batch, m *Message, before []Header,
	maxHeaders int,
) (delta int64, at time.Time, headers []Header) {
	one := byteReader{rest: r.bytes("record")}
	one.take(1) // attributes, unused
	timeDelta := one.varint("timestamp delta")
	delta = one.varint("offset delta")
	m.Key, m.Value = one.bytes("key"), one.bytes("value")
	m.Headers = one.headers(before, maxHeaders)
	if r.err == nil && one.err == nil && len(one.rest) > 0 {
		one.err = fmt.Errorf("%d bytes behind the headers", len(one.rest))
	}
	if r.err == nil {
		r.err = one.err
	}
	return delta, b.time(timeDelta), m.Headers
}

func (r *byteReader) headers(before []Header, most int) []Header {
	n := r.varint("count of headers")
	switch {
	case r.err != nil || n == 0:
		return nil
	case n < 0 || n > int64(len(r.rest)/2):
		r.err = fmt.Errorf("%d headers in %d bytes", n, len(r.rest))
		return nil
	case n > int64(most):
		r.err = fmt.Errorf("batch has more than %d records and headers: %w", maxBatchEntries, errTooLarge)
		return nil
	}
	out := make([]Header, n)
	for i := range out {
		key := r.bytes("header key")
		if i < len(before) && before[i].Key == string(key) {
			out[i].Key = before[i].Key
		} else {
			out[i].Key = string(key)
		}
		out[i].Value = r.bytes("header value")
	}
	return out
}

func (r *byteReader) varint(what string) int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail("%s is cut off or not a number", what)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *byteReader) take(n int64) []byte {
	if n > int64(len(r.rest)) {
		r.fail("ends after %d bytes, want %d", len(r.rest), n)
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

// bytes returns nil for the length -1.
func (r *byteReader) bytes(what string) []byte {
	n := r.varint(what)
	if n < -1 || n > int64(len(r.rest)) {
		r.fail("%s has a length of %d bytes, but only %d are left", what, n, len(r.rest))
		return nil
	}
	if n < 0 || r.err != nil {
		return nil
	}
	return r.take(n)
}

func (r *byteReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.rest = nil
}

// firstKey is the key of the first record, if it is complete.
func firstKey(body []byte) []byte {
	r := byteReader{rest: body}
	r.varint("record")
	r.take(1)
	r.varint("timestamp delta")
	r.varint("offset delta")
	if key := r.bytes("key"); r.err == nil && len(key) <= keyKeptBytes {
		return slices.Clone(key)
	}
	return nil
}
