package broker

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/clock"
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

// refuseUnreadable makes the embedded broker refuse what a consumer could not read,
// and offsets that no record has, which kfake takes: it looks at the header alone.
func refuseUnreadable(cluster *kfake.Cluster, log *slog.Logger) {
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce, ok := req.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		for i := range produce.Topics {
			for j := range produce.Topics[i].Partitions {
				if err := readable(produce.Topics[i].Partitions[j].Records); err != nil {
					log.Warn("records refused", "topic", produce.Topics[i].Topic, "partition", produce.Topics[i].Partitions[j].Partition, "error", err)
					return refusal(produce), nil, true
				}
			}
		}
		return nil, nil, false
	})
}

// readable says what is wrong with the records of a produce request: one batch.
func readable(set []byte) error {
	b, rest, ok := cutBatch(set)
	switch {
	case !ok || len(rest) > 0:
		return fmt.Errorf("%d bytes, want one record batch", len(set))
	case b.err == nil && (b.count == 0 || int64(b.count) != b.last-b.first+1):
		return fmt.Errorf("batch has %d records for %d offsets", b.count, b.last-b.first+1)
	}
	if _, _, bad := b.messages(nil, b.first, Message{}, maxBatchBytes); bad != nil {
		return bad.Err
	}
	return nil
}

// refusal answers every partition of a request alike.
func refusal(req *kmsg.ProduceRequest) kmsg.Response {
	res, ok := req.ResponseKind().(*kmsg.ProduceResponse)
	if !ok || req.Acks == 0 {
		return nil
	}
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, int16(kafka.InvalidRecord)
			topic.Partitions = append(topic.Partitions, partition)
		}
		res.Topics = append(res.Topics, topic)
	}
	return res
}

// stampAppendTimes makes the embedded broker set each batch's time as it
// appends, as message.timestamp.type=LogAppendTime asks. kfake knows that
// setting, but ignores it; and it stamps a batch whose producer sets the
// attribute, but stores it with the CRC of what it was before, and drops it when
// it reloads.
func stampAppendTimes(cluster *kfake.Cluster, c clock.Clock) {
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce, ok := req.(*kmsg.ProduceRequest)
		if !ok {
			return nil, nil, false
		}
		now := c.Now()
		for i := range produce.Topics {
			for j := range produce.Topics[i].Partitions {
				stampBatch(produce.Topics[i].Partitions[j].Records, now)
			}
		}
		return nil, nil, false
	})
}

// stampBatch moves the batch's times so that the first is now, and renews the
// CRC. A batch that is not whole is left for the broker to refuse.
func stampBatch(batch []byte, now time.Time) {
	if len(batch) < batchHeaderBytes || batch[batchMagicAt] != 2 {
		return
	}
	crc := crc32.Checksum(batch[batchBodyAt:], castagnoli)
	if binary.BigEndian.Uint32(batch[batchCRCAt:]) != crc {
		return
	}
	first := int64(binary.BigEndian.Uint64(batch[batchFirstTimeAt:]))
	last := int64(binary.BigEndian.Uint64(batch[batchMaxTimeAt:]))
	spread := max(last-first, 0)
	binary.BigEndian.PutUint64(batch[batchFirstTimeAt:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint64(batch[batchMaxTimeAt:], uint64(now.UnixMilli()+spread))
	binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchBodyAt:], castagnoli))
}
