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
	ReasonTooLarge = "too_large" // beyond a limit of what one may hold
)

// Unreadable says why a message can't be used as it is.
type Unreadable struct {
	Reason string
	Err    error
	// To is set where a whole record batch can't be read: the message stands for
	// its offsets [Offset, To), Value is the batch as the broker has it, Key that of
	// its first record, if it can be told. Zero: one record, sound but too large.
	To int64
}

// Limits of a record batch. Our own producers' have at most BatchBytes or one
// message of MaxMessageBytes, and BatchMessages records of half a dozen headers.
const (
	// maxBatchBytes bounds the records of a batch, decompressed.
	maxBatchBytes = 32 << 20
	// maxBatchEntries bounds records and headers together: each takes some 100
	// bytes of memory, and may be of 2 bytes in the batch.
	maxBatchEntries = 200_000
	// maxFetchedBytes is where a fetch stops to decode batches; what follows is met
	// again at the next one.
	maxFetchedBytes = 16 << 20
	// messageBytes is what a Message takes beside its bytes.
	messageBytes = 192
	// minRecordBytes: length, attributes, two deltas, key, value, headers.
	minRecordBytes = 7
	// keyKeptBytes bounds the key of an unreadable batch.
	keyKeptBytes = 4 << 10
)

var (
	errTooLarge = errors.New("too large")
	errChecksum = errors.New("checksum does not match")
)

// Places in a record batch of format 2 (Kafka protocol, "Record Batch").
const (
	batchLengthAt     = 8
	batchLengthEnds   = 12 // what the length counts begins here
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchBodyAt       = 21 // the CRC covers everything from here
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchFirstTimeAt  = 27
	batchMaxTimeAt    = 35
	batchCountAt      = 57
	batchHeaderBytes  = 61

	// batchAppendTime is the attribute that says that the max timestamp is the
	// broker's, at the append, and the records' own are to be ignored.
	batchAppendTime = 1 << 3
	// batchCodec are the attributes' bits of the compression.
	batchCodec = 7
	// batchControl is the attribute of markers, which kafka-go keeps to itself.
	batchControl = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is a record batch with what its header says.
type batch struct {
	raw         []byte // header and all
	first, last int64  // offsets, as brokers go by
	attributes  uint16
	firstTime   int64 // ms
	maxTime     int64
	count       int32
	err         error // malformed
}

// bare says that the batch has no record to hand on: a transaction's marker.
func (b *batch) bare() bool { return b.err == nil && (b.attributes&batchControl != 0 || b.count == 0) }

// cutBatch takes the first batch off a record set. Nothing is left of a set
// that ends in the batch's midst, and no batch.
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
		b.err = fmt.Errorf("batch has the offsets %d to %d", b.first, b.last)
		b.last = b.first
	case b.count < 0 || int64(b.count) > b.last-b.first+1:
		b.err = fmt.Errorf("batch has %d records for the offsets %d to %d", b.count, b.first, b.last)
	}
	return b, rest, true
}

// behind is the offset behind a batch that is there for the sake of an offset.
// Brokers go by the last offset of its header; where that is a lie, it is not beyond
// the next batch of the set nor the partition's end, and it goes on in any case.
func (b *batch) behind(at int64, rest []byte, highWatermark int64) int64 {
	to := min(b.last+1, highWatermark)
	if next := nextFirst(rest); next > b.first {
		to = min(to, next)
	}
	return max(to, at+1, b.first+1)
}

// covers says that the answer to a fetch at an offset has the batch for that offset's
// sake. Of a malformed header it is what no later batch has.
func (b *batch) covers(at int64, rest []byte) bool {
	if b.last >= at || b.err == nil {
		return b.last >= at
	}
	next := nextFirst(rest)
	return next <= b.first || next > at
}

// nextFirst is the first offset of a record set, cut off or not; -1: it has none.
func nextFirst(set []byte) int64 {
	if len(set) < 8 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(set))
}

// time is when the broker appended a record, where it says so; else what the
// producer said, within the batch's own times.
func (b *batch) time(delta int64) time.Time {
	if b.attributes&batchAppendTime != 0 {
		return time.UnixMilli(b.maxTime)
	}
	return time.UnixMilli(min(max(b.firstTime+delta, b.firstTime), max(b.maxTime, b.firstTime)))
}

// messages appends the batch's records from an offset on to msgs, each like the
// one given, and says how many bytes they take. The batch is checked as a whole
// first to last; of one that is unreadable nothing is appended.
func (b *batch) messages(msgs []Message, from int64, like Message,
	maxBytes int,
) (_ []Message, bytes int, bad *Unreadable) {
	if b.bare() {
		b.err = errors.New("batch has no record: a transaction's marker")
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

// open checks the header, and decompresses the records. What it gives with an
// error is their beginning.
func (b *batch) open() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	want := binary.BigEndian.Uint32(b.raw[batchCRCAt:])
	if got := crc32.Checksum(b.raw[batchBodyAt:], castagnoli); got != want {
		return nil, fmt.Errorf("batch has the CRC %08x, its bytes %08x: %w", want, got, errChecksum)
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

// byteReader reads what Kafka's protocol is made of; after an error all is zero.
type byteReader struct {
	rest []byte
	err  error
}

// number reads a big-endian number of so many bytes.
func (r *byteReader) number(bytes int64) (v uint64) {
	for _, b := range r.take(bytes) {
		v = v<<8 | uint64(b)
	}
	return v
}

// count reads the length of an array or of bytes; null is none.
func (r *byteReader) count() int64 { return max(0, int64(int32(r.number(4)))) }

// text passes over a string, which may be null.
func (r *byteReader) text() { r.take(max(0, int64(int16(r.number(2))))) }

// record reads the next record into m. The headers of the record before spare
// it their names.
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
		r.fail("%s is cut off or no number", what)
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

// bytes are nil where their length is -1.
func (r *byteReader) bytes(what string) []byte {
	n := r.varint(what)
	if n < -1 || n > int64(len(r.rest)) {
		r.fail("%s of %d bytes in %d", what, n, len(r.rest))
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

// firstKey is the key of the first record, if the beginning of the records has it.
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
