package ingest

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/wire"
)

// chunksOf cuts messages into chunks of at most the given number of bytes, or of one
// message that is larger. The memory that ingest needs for decoded batches and columns
// is proportional to a chunk.
func chunksOf(msgs []broker.Message, most int) iter.Seq[[]broker.Message] {
	return func(yield func([]broker.Message) bool) {
		for len(msgs) > 0 {
			n, size := 1, messageBytes(&msgs[0])
			for n < len(msgs) && size+messageBytes(&msgs[n]) <= most {
				size += messageBytes(&msgs[n])
				n++
			}
			if !yield(msgs[:n:n]) {
				return
			}
			msgs = msgs[n:]
		}
	}
}

// insertWeeks is the greatest number of weeks in one insert. Raw tables are
// partitioned by week, and ClickHouse refuses a block for more than 100 partitions
// (max_partitions_per_insert_block), however often it is tried again.
const insertWeeks = 50

// byWeeks cuts a chunk into runs of few enough weeks; usually there is one run.
func byWeeks(items []item) iter.Seq[[]item] {
	return func(yield func([]item) bool) {
		for len(items) > 0 {
			n, weeks := 0, map[int64]bool{}
			for ; n < len(items); n++ {
				if b := items[n].batch; b != nil {
					weeks[b.SlotStartMs/weekMS] = true
				}
				if len(weeks) > insertWeeks {
					break
				}
			}
			if !yield(items[:n:n]) {
				return
			}
			items = items[n:]
		}
	}
}

const weekMS = 7 * 24 * 60 * 60 * 1000

func bytesOf(msgs []broker.Message) (n int) {
	for i := range msgs {
		n += messageBytes(&msgs[i])
	}
	return n
}

func messageBytes(m *broker.Message) int {
	return len(m.Key) + len(m.Value) + headerBytes(m.Headers)
}

// newestSlots are the ends of the newest live slots by cluster, Unix ms. Simulated,
// replayed and imported batches are left out: they say nothing about how fresh the
// ledger is.
type newestSlots map[string]int64

func (n newestSlots) note(gauge *prometheus.GaugeVec, b *wire.Batch) {
	if end := b.SlotStartMs + b.SlotMs; live(b) && end > n[b.Cluster] {
		n[b.Cluster] = end
		gauge.WithLabelValues(b.Cluster).Set(float64(end) / 1000)
	}
}
