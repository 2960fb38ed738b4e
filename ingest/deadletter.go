package ingest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/broker"
)

// Limits of what a dead letter keeps of a message. Each part of a message may be as
// large as the topic allows; its dead letter must fit into a message together with its
// own headers, or the partition would never advance.
const (
	deadLetterBytes       = 64 << 10
	deadLetterKeyBytes    = 4 << 10
	deadLetterErrorBytes  = 4 << 10
	deadLetterHeaderBytes = 16 << 10
)

// Headers of a dead letter. The headers of the message itself follow, each with the
// prefix before its name.
const (
	headerReason     = "reason"
	headerError      = "error"
	headerTopic      = "topic"
	headerPartition  = "partition"
	headerOffset     = "offset"
	headerLastOffset = "last_offset" // only of an unreadable record batch: the value is the batch's bytes
	headerSize       = "size"
	headerSHA256     = "sha256"
	headerKeySize    = "key_size"    // only if the key is cut
	headerHeadersCut = "headers_cut" // only if the message's headers are left out: their size in bytes
	originalPrefix   = "header."
)

// HeaderReplayOf marks a message that was sent back from the dead-letter topic:
// partition and offset of its dead letter.
const HeaderReplayOf = "gputally-replay-of"

func deadLetter(it *item) broker.Message {
	msg := &it.msg
	sum := sha256.Sum256(msg.Value)
	out := broker.Message{
		Topic: broker.TopicDeadLetter,
		Key:   msg.Key[:min(len(msg.Key), deadLetterKeyBytes)],
		Value: msg.Value[:min(len(msg.Value), deadLetterBytes)],
	}
	add := func(key, value string) {
		out.Headers = append(out.Headers, broker.Header{Key: key, Value: []byte(value)})
	}
	text := it.err.Error()
	add(headerReason, it.reason)
	add(headerError, text[:min(len(text), deadLetterErrorBytes)])
	add(headerTopic, msg.Topic)
	add(headerPartition, strconv.Itoa(msg.Partition))
	add(headerOffset, strconv.FormatInt(msg.Offset, 10))
	if msg.Bad != nil && msg.Bad.To > 0 {
		add(headerLastOffset, strconv.FormatInt(msg.Bad.To-1, 10))
	}
	add(headerSize, strconv.Itoa(len(msg.Value)))
	add(headerSHA256, hex.EncodeToString(sum[:]))
	if len(msg.Key) > deadLetterKeyBytes {
		add(headerKeySize, strconv.Itoa(len(msg.Key)))
	}
	if n := headerBytes(msg.Headers); n > deadLetterHeaderBytes {
		add(headerHeadersCut, strconv.Itoa(n))
		return out
	}
	for _, h := range msg.Headers {
		out.Headers = append(out.Headers, broker.Header{Key: originalPrefix + h.Key, Value: h.Value})
	}
	return out
}

func headerBytes(headers []broker.Header) (n int) {
	for _, h := range headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Reasons returns the reasons of dead letters, which decode.go decides: of a message, of a batch as such, of a batch
// compared with its cluster and its append time, and of an unreadable record batch.
func Reasons() []string {
	return []string{
		"garbage", "format", "invalid", "limits", "too_costly", "origin", reasonCluster, "slot_length", "early",
		"sequence", "late", "window", broker.ReasonRecord, broker.ReasonTooLarge,
	}
}

// DeadLetter is a message that ingest could not use, as stored in the dead-letter
// topic.
type DeadLetter struct {
	Partition int // of the dead-letter topic
	Offset    int64
	At        time.Time // when it was written

	Reason string // one of Reasons
	Error  string
	// The original message: its position, the size of its value, and the value's hash.
	Topic             string
	OriginalPartition int
	OriginalOffset    int64
	Size              int
	SHA256            string // hex
	ReplayOf          string // the dead letter from which the message was sent back; empty: none

	Key   []byte // the first 4 KiB
	Value []byte // the first 64 KiB

	headers          []broker.Header // of the original message
	keySize, headCut string
	lastOffset       string
}

// ParseDeadLetter reads a message of the dead-letter topic. The error names the header
// that is missing or malformed.
func ParseDeadLetter(msg broker.Message) (DeadLetter, error) {
	l := DeadLetter{Partition: msg.Partition, Offset: msg.Offset, At: msg.Time, Key: msg.Key, Value: msg.Value}
	h := map[string]string{}
	for _, header := range msg.Headers {
		if name, ok := strings.CutPrefix(header.Key, originalPrefix); ok {
			l.headers = append(l.headers, broker.Header{Key: name, Value: header.Value})
			if name == HeaderReplayOf {
				l.ReplayOf = string(header.Value)
			}
			continue
		}
		h[header.Key] = string(header.Value)
	}
	l.Reason, l.Error, l.Topic, l.SHA256 = h[headerReason], h[headerError], h[headerTopic], h[headerSHA256]
	l.keySize, l.headCut, l.lastOffset = h[headerKeySize], h[headerHeadersCut], h[headerLastOffset]
	var errs [3]error
	l.OriginalPartition, errs[0] = number[int](h, headerPartition)
	l.OriginalOffset, errs[1] = number[int64](h, headerOffset)
	l.Size, errs[2] = number[int](h, headerSize)
	err := cmp.Or(errs[0], errs[1], errs[2])
	if err == nil && (l.Reason == "" || l.Topic == "") {
		err = fmt.Errorf("header %s or %s is missing", headerReason, headerTopic)
	}
	if err != nil {
		return l, fmt.Errorf("read dead letter %s: %w", l.Place(), err)
	}
	return l, nil
}

func number[N int | int64](headers map[string]string, name string) (N, error) {
	n, err := strconv.ParseInt(headers[name], 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("header %s is %q, want a number", name, headers[name])
	}
	return N(n), nil
}

// Place is the dead letter's own partition and offset, as in 0/17.
func (l *DeadLetter) Place() string {
	return strconv.Itoa(l.Partition) + "/" + strconv.FormatInt(l.Offset, 10)
}

// Replayable returns why the message can't be sent again: a part of it is missing, or
// it differs from its hash. nil: it can be sent.
func (l *DeadLetter) Replayable() error {
	sum := sha256.Sum256(l.Value)
	switch {
	case l.Topic != broker.TopicSamples:
		return fmt.Errorf("the message came from topic %q; only messages of %s can be sent again", l.Topic,
			broker.TopicSamples)
	case l.lastOffset != "":
		return fmt.Errorf("unreadable record batch (offsets %d to %s): it holds no message to send again", l.OriginalOffset,
			l.lastOffset)
	case l.Size > len(l.Value):
		return fmt.Errorf("the value was cut: the dead letter keeps only %d of %d bytes", len(l.Value), l.Size)
	case l.keySize != "":
		return fmt.Errorf("the key was cut: the dead letter keeps only %d of %s bytes", len(l.Key), l.keySize)
	case l.headCut != "":
		return fmt.Errorf("the headers were left out: they have %s bytes", l.headCut)
	case hex.EncodeToString(sum[:]) != l.SHA256:
		return errors.New("damaged: the value doesn't have the SHA-256 that the dead letter names")
	}
	return nil
}

// Resend is the original message with one more header that names this dead letter.
// Call it only if Replayable returns nil.
func (l *DeadLetter) Resend() broker.Message {
	out := broker.Message{Topic: l.Topic, Key: l.Key, Value: l.Value}
	for _, h := range l.headers {
		if h.Key != HeaderReplayOf {
			out.Headers = append(out.Headers, h)
		}
	}
	out.Headers = append(out.Headers, broker.Header{Key: HeaderReplayOf, Value: []byte(l.Place())})
	return out
}
