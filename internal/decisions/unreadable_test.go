package decisions

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gputally/gputally/internal/broker"
)

// hostileBatch is one record with 2^40 headers (H3), or a bomb of 64 MiB (H4), with as
// many offsets as asked for.
func hostileBatch(tb testing.TB, bomb bool, offsets int32) []byte {
	tb.Helper()
	body, codec := []byte{0, 0, 0, 1, 1}, byte(0)
	body = binary.AppendVarint(body, 1<<40)
	body = append(binary.AppendVarint(nil, int64(len(body))), body...)
	if bomb {
		var out bytes.Buffer
		w := compress.Zstd.Codec().NewWriter(&out)
		if _, err := w.Write(make([]byte, 64<<20)); err != nil || w.Close() != nil {
			tb.Fatal(err)
		}
		body, codec = out.Bytes(), byte(compress.Zstd)
	}
	b := make([]byte, 61, 61+len(body))
	binary.BigEndian.PutUint32(b[8:], uint32(49+len(body)))
	b[16], b[22] = 2, codec
	binary.BigEndian.PutUint32(b[23:], uint32(offsets-1))
	copy(b[43:57], bytes.Repeat([]byte{0xff}, 14))
	binary.BigEndian.PutUint32(b[57:], uint32(offsets))
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// TestH3H4UnreadableBatchesAreRefusedAndNoBrick: each of their offsets is refused, in
// every process alike, the chain tells one such batch from another, and the log goes on.
func TestH3H4UnreadableBatchesAreRefusedAndNoBrick(t *testing.T) {
	chains := map[string]bool{}
	for name, bomb := range map[string]bool{"2^40 headers": false, "bomb": true} {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1)) // as a broker that looks at nothing
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		addr := cluster.ListenAddrs()[0]
		l := open(t, addr)
		prepareLog(t, l)
		produceRaw(t, addr, hostileBatch(t, bomb, 3))
		transact(t, addr)
		first := invoiceOf("ml")
		out := appendTo(t, l, KindInvoice, "order 7", "carol", &first)
		if !out.Accepted || out.Offset != 5+3+2 {
			t.Errorf("%s: the next decision: %+v, want it accepted at offset 10", name, out)
		}
		again := open(t, addr)
		if diff := cmp.Diff(stateOf(l), stateOf(again)); diff != "" {
			t.Errorf("%s: state of another process (-first +second):\n%s", name, diff)
		}
		var refused []int64
		if err := again.Walk(testContext(t), 6, func(e Entry) error {
			if strings.HasPrefix(e.Reason, unreadable) {
				refused = append(refused, e.Offset)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int64{6, 7, 9}, refused); diff != "" { // 5 lies before, 8 is the transaction's message
			t.Errorf("%s: unreadable offsets from 6 on (-want +got):\n%s", name, diff)
		}
		_, chain := again.state.Outcome(7)
		chains[chain] = true
		want := again.state.past[4].chain
		for offset := int64(5); offset < 8; offset++ {
			want = Link(want, offset, nil, []byte(unreadable+Digest(stored(hostileBatch(t, bomb, 3), 5))))
		}
		if chain != fmt.Sprintf("%x", want) {
			t.Errorf("%s: chain is %s, want %x", name, chain, want)
		}
	}
	if len(chains) != 2 {
		t.Error("the chain does not tell one unreadable batch from another")
	}
}

// stored is the batch as the broker has it: with its offset, and its leader's epoch.
func stored(batch []byte, first int64) []byte {
	binary.BigEndian.PutUint64(batch, uint64(first))
	return batch
}

func produceRaw(t *testing.T, addr string, batch []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(testContext(t)); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = broker.TopicDecisions
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	res, err := client.DiscoveredBrokers()[0].Request(testContext(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(res.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

// transact leaves a message, which is refused, and a transaction's marker.
func transact(t *testing.T, addr string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("foreign"), kgo.DefaultProduceTopic(broker.TopicDecisions))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(testContext(t), kgo.StringRecord("junk")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(testContext(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}
