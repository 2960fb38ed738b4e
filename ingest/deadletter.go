package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/broker"
)

// deadLetterBytes is how much of a message its dead letter keeps: a 10 MB
// message with its headers would not fit.
const deadLetterBytes = 64 << 10

func deadLetter(it *item) broker.Message {
	sum := sha256.Sum256(it.msg.Value)
	value := it.msg.Value[:min(len(it.msg.Value), deadLetterBytes)]
	header := func(key, value string) broker.Header { return broker.Header{Key: key, Value: []byte(value)} }
	return broker.Message{
		Topic: broker.TopicDeadLetter, Key: it.msg.Key, Value: value,
		Headers: []broker.Header{
			header("reason", it.reason),
			header("error", it.err.Error()),
			header("topic", it.msg.Topic),
			header("partition", strconv.Itoa(it.msg.Partition)),
			header("offset", strconv.FormatInt(it.msg.Offset, 10)),
			header("size", strconv.Itoa(len(it.msg.Value))),
			header("sha256", hex.EncodeToString(sum[:])),
		},
	}
}
