package broker

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuledger/gpuledger/internal/clock"
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
