package decisions

import (
	"context"
	"errors"
	"fmt"

	"github.com/gputally/gputally/internal/broker"
)

// NewDocument names data by the parts in which Put stores it, without writing.
func NewDocument(data []byte) Document {
	d := Document{SHA256: Digest(data), Bytes: int64(len(data)), Parts: []string{}}
	for ; len(data) > 0; data = data[min(PartBytes, len(data)):] {
		d.Parts = append(d.Parts, Digest(data[:min(PartBytes, len(data))]))
	}
	return d
}

// Put writes the parts of data that are not in the topic yet, and returns when they
// have been read back; then a record may refer to the document. It writes nothing to a
// log that isn't Whole.
func (l *Log) Put(ctx context.Context, data []byte) (Document, error) {
	d := NewDocument(data)
	if err := l.Refresh(ctx); err != nil {
		return Document{}, fmt.Errorf("put document: %w", err)
	}
	if err := l.Whole(); err != nil {
		return Document{}, fmt.Errorf("put document: %w", err)
	}
	var msgs []broker.Message
	missing := map[string]bool{}
	for i, hash := range d.Parts {
		value := data[i*PartBytes : min((i+1)*PartBytes, len(data))]
		if _, there := l.where(hash); !there && !missing[hash] {
			missing[hash] = true
			msgs = append(msgs, message(KindPart, hash, value))
		}
	}
	if len(msgs) == 0 {
		return d, nil
	}
	if err := l.producer.Produce(ctx, msgs); err != nil {
		return Document{}, fmt.Errorf("put document: %w", err)
	}
	last := int64(-1)
	for i := range msgs {
		last = max(last, msgs[i].Offset)
	}
	if err := l.readTo(ctx, last); err != nil {
		return Document{}, fmt.Errorf("put document: read it back: %w", err)
	}
	return d, nil
}

func (l *Log) where(hash string) (offset int64, there bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p, there := l.state.parts[hash]
	return p.offset, there
}

// ErrDocument reports that the parts which a record names don't make up the document
// that it describes. Put never writes such a record; the fold can't notice it, because
// it keeps no parts.
var ErrDocument = errors.New("document doesn't match its record")

// Read reads a document, and checks the hashes of its parts and of the whole.
func (l *Log) Read(ctx context.Context, d Document) ([]byte, error) {
	out := make([]byte, 0, d.Bytes)
	for i := 0; i < len(d.Parts); {
		first, there := l.where(d.Parts[i])
		if !there {
			return nil, fmt.Errorf("read document %s: part %d (%s) is missing from the topic", d.SHA256, i, d.Parts[i])
		}
		n := l.run(d.Parts[i:], first)
		err := l.verified(ctx, first, first+int64(n), func(m *broker.Message) error {
			if part := d.Parts[i+int(m.Offset-first)]; string(m.Key) != part {
				return fmt.Errorf("the message at offset %d has key %s instead of part %s", m.Offset, shown(string(m.Key)), part)
			}
			out = append(out, m.Value...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read document %s: %w", d.SHA256, err)
		}
		i += n
	}
	if got := Digest(out); got != d.SHA256 || int64(len(out)) != d.Bytes {
		return nil, fmt.Errorf("read document %s: %w: %d bytes with SHA-256 %s, want %d", d.SHA256, ErrDocument, len(out),
			got, d.Bytes)
	}
	return out, nil
}

// run is the number of consecutive parts from the first one's offset on.
func (l *Log) run(parts []string, first int64) int {
	n := 1
	for n < len(parts) {
		if offset, there := l.where(parts[n]); !there || offset != first+int64(n) {
			break
		}
		n++
	}
	return n
}

// errAltered reports a message that differs from the one that was folded.
var errAltered = errors.New("message was altered after it was first read")
