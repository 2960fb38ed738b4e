package broker

import (
	"fmt"
	"time"
)

// Header is a name and value beside a message's body.
type Header struct {
	Key   string
	Value []byte
}

// Message is one Kafka record.
type Message struct {
	Topic   string
	Key     []byte
	Value   []byte
	Headers []Header

	// Partition and Offset are the message's place; Produce sets them on
	// acknowledged messages.
	Partition int
	Offset    int64

	// Time is the record's timestamp, see the package comment. Produce sets it,
	// with the embedded broker to when it was called.
	Time time.Time
	// FetchedAt is when this process received the message, on its own clock.
	FetchedAt time.Time

	// Hole is what was deleted just before this message and after the one
	// before it (or after the committed offset); nil: nothing.
	Hole *Hole

	// Bad says why the message can't be used as it is; nil: it can.
	Bad *Unreadable
}

// Next is the offset behind the message: one more than Offset, unless it stands
// for a batch that can't be read.
func (m *Message) Next() int64 {
	if m.Bad != nil && m.Bad.To > 0 {
		return m.Bad.To
	}
	return m.Offset + 1
}

// sizeBytes is the message's size as the limits count it: key, value, headers.
func (m *Message) sizeBytes() int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Hole is a run of offsets [From, To) of a partition that can't be read any
// more, as a rule because retention deleted them before they were fetched (C3).
// It begins at the committed offset where the group starts, so a consumer that
// journals before it commits may find some of it journalled already.
type Hole struct {
	Partition int
	From      int64
	To        int64
}

// Count is the number of offsets in the hole.
func (h Hole) Count() int64 { return h.To - h.From }

func (h Hole) String() string {
	return fmt.Sprintf("partition %d offsets [%d, %d)", h.Partition, h.From, h.To)
}

type topicPartition struct {
	topic     string
	partition int
}
