package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Format is the only format of a Batch that this version reads and writes.
const Format = 1

// Error is an unusable batch, with the reason by which it is counted and stored as a dead letter: garbage, format,
// invalid (it contradicts itself), limits (it contradicts hardware), too_costly.
type Error struct {
	Reason string
	Err    error
}

func (e *Error) Error() string { return e.Reason + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Encode writes a batch in the current format, deterministically.
func Encode(b *Batch) ([]byte, error) {
	b.Format = Format
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode batch of node %q: %w", b.Node, err)
	}
	return out, nil
}

// Decode reads a batch and counts its unknown fields, which a newer collector may have added. Its error is an *Error.
func Decode(data []byte) (b *Batch, unknown int, err error) {
	b = &Batch{}
	refused := func(reason string, err error) (*Batch, int, error) { return nil, 0, &Error{Reason: reason, Err: err} }
	if n := len(data); n > smallBytes && partsIn(data, b.ProtoReflect().Descriptor(), 0) > maxParts {
		return refused("limits",
			fmt.Errorf("decode batch of %d bytes: more than %d messages and unknown fields in it", n, maxParts))
	}
	if err := proto.Unmarshal(data, b); err != nil {
		return refused("garbage", fmt.Errorf("decode batch of %d bytes: %w", len(data), err))
	}
	if b.Format != Format {
		return refused("format",
			fmt.Errorf("decode batch: format %d, this version reads format %d", b.Format, Format))
	}
	if err := Validate(b); err != nil {
		reason := "invalid"
		var limit *limitError
		if errors.As(err, &limit) {
			reason = limit.reason
		}
		return refused(reason, err)
	}
	return b, countUnknown(b), nil
}

const (
	// smallBytes is the size up to which decoding a batch can't take much memory.
	smallBytes = 64 << 10
	// maxParts is more messages than a batch within the limits has. A message of two bytes takes two hundred when
	// decoded.
	maxParts = MaxGPUs + MaxPools + MaxLeaves + 2*MaxHolds + MaxEvents + MaxGaps + 1<<10
)

// partsIn counts the messages and unknown fields in encoded bytes, without decoding them, starting at n; it stops
// when there are too many.
func partsIn(data []byte, m protoreflect.MessageDescriptor, n int) int {
	for len(data) > 0 && n <= maxParts {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return n
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(number, kind, data); size < 0 {
			return n // the decoder reports the error
		}
		switch field := m.Fields().ByNumber(number); {
		case field == nil || !encodedAs(field, kind):
			n++
		case field.Message() != nil:
			value, _ := protowire.ConsumeBytes(data)
			n = partsIn(value, field.Message(), n+1)
		}
		data = data[size:]
	}
	return n
}

// encodedAs is false if the decoder would treat the field as unknown.
func encodedAs(field protoreflect.FieldDescriptor, kind protowire.Type) bool {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.StringKind:
		return kind == protowire.BytesType
	case protoreflect.DoubleKind:
		return kind == protowire.Fixed64Type || (field.IsList() && kind == protowire.BytesType)
	default:
		return kind == protowire.VarintType || (field.IsList() && kind == protowire.BytesType)
	}
}

func countUnknown(b *Batch) int {
	n := unknownIn(b.ProtoReflect()) + unknownInAll(b.Observed) + unknownInAll(b.Gaps) + unknownInAll(b.Events)
	if b.Counters != nil {
		n += unknownIn(b.Counters.ProtoReflect())
	}
	if b.Predecessor != nil {
		n += unknownIn(b.Predecessor.ProtoReflect())
	}
	for _, g := range b.Gpus {
		n += unknownIn(g.ProtoReflect()) + unknownInAll(g.Leaves) + unknownInAll(g.Holds)
		for _, h := range g.Holds {
			if h.Owner != nil {
				n += unknownIn(h.Owner.ProtoReflect())
			}
		}
	}
	return n
}

func unknownInAll[M proto.Message](list []M) (n int) {
	for _, m := range list {
		n += unknownIn(m.ProtoReflect())
	}
	return n
}

// unknownIn counts a message's own unknown fields, each occurrence once.
func unknownIn(m protoreflect.Message) int {
	raw, n := m.GetUnknown(), 0
	for len(raw) > 0 {
		size := fieldSize(raw)
		if size <= 0 {
			return n + 1
		}
		raw = raw[size:]
		n++
	}
	return n
}

func fieldSize(raw []byte) int {
	_, _, n := protowire.ConsumeField(raw)
	return n
}

// Hash identifies a batch's content: the SHA-256 of its canonical form. How it was delivered (origin's window, the
// slot length declared for a new cluster) is left out, so that a batch imported twice has the same hash.
func Hash(b *Batch, encoded []byte) [32]byte {
	if b.Origin != Origin_ORIGIN_IMPORT && b.Origin != Origin_ORIGIN_REPLAY {
		return sha256.Sum256(encoded)
	}
	from, to, length := b.WindowFromMs, b.WindowToMs, b.ClusterSlotMs
	b.WindowFromMs, b.WindowToMs, b.ClusterSlotMs = 0, 0, 0
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	b.WindowFromMs, b.WindowToMs, b.ClusterSlotMs = from, to, length
	if err != nil {
		return sha256.Sum256(encoded)
	}
	return sha256.Sum256(canonical)
}

// ID is the first 8 bytes of a hash, the batch column of rows.
func ID(hash [32]byte) uint64 { return binary.BigEndian.Uint64(hash[:8]) }
