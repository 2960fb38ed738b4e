package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// This package uses kafka-go v0.4.51 for the protocol's requests (Client, Transport) and group membership
// (ConsumerGroup). What it does itself, and why:
//
//   - It decodes the answer to a fetch (fetchCall, here, and records.go). kafka-go trusts every length and count of a
//     record (protocol/record_v2.go), and drops a batch's max timestamp, which is the time of the append in a topic
//     with message.timestamp.type=LogAppendTime. Its Reader also skips deleted offsets silently, which would be lost
//     batches (C3).
//   - It counts the partitions that the group's leader assigned (dealt, here).
//   - It sends produce requests itself (producer.go). kafka-go's Writer continues to send after the caller's context
//     has ended, so that a repeated call overtakes the first attempt and breaks the order of a key; it gives up on
//     errors that it considers permanent, such as UNKNOWN_SERVER_ERROR, the embedded broker's answer on a full disk;
//     one refused message fails its whole batch; and its pauses use the wall clock.

// fetched is the answer of a partition's leader to a fetch.
type fetched struct {
	set           []byte // record batches as stored by the broker; the last may be cut off
	highWatermark int64
}

// ApiKey implements protocol.Message.
func (*fetched) ApiKey() protocol.ApiKey { return protocol.Fetch }

// fetchCall is a fetch request that decodes its answer itself.
type fetchCall struct {
	fetch.Request
	clientID string
	version  int16
}

var _ protocol.RawExchanger = (*fetchCall)(nil)

// Required records the request version of the connection; kafka-go calls it right before RawExchange, for any
// connection.
func (f *fetchCall) Required(versions map[protocol.ApiKey]int16) bool {
	f.version = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads the response; until it returns, no other request uses the connection.
func (f *fetchCall) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const correlation = 1
	if err := protocol.WriteRequest(rw, f.version, correlation, f.clientID, &f.Request); err != nil {
		return nil, err
	}
	answer, err := readFrame(rw)
	if err != nil {
		return nil, err
	}
	asked := f.Topics[0]
	res, err := parseFetch(answer, f.version, correlation, asked.Topic, asked.Partitions[0].Partition)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// maxFrameBytes bounds the allocation for an answer. MaxBytes of the request doesn't: a larger batch still arrives,
// alone, if the topic's max.message.bytes allows it.
const maxFrameBytes = 64 << 20

// readFrame reads one response: a length in 4 bytes, then as many bytes, which it returns.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrameBytes {
		return nil, fmt.Errorf("broker answers fetch with %d bytes, limit %d", n, maxFrameBytes)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// errCutOff is returned for an answer that is shorter than its length fields.
var errCutOff = errors.New("broker's answer to fetch is cut off")

// parseFetch parses a response about the one requested partition, in the layout of Kafka's "Fetch Response" up to
// version 11.
func parseFetch(frame []byte, version int16, correlation int32, topic string, partition int32) (*fetched, error) {
	r := byteReader{rest: frame}
	id := int32(r.number(4))
	if version >= 1 {
		r.take(4) // throttle time
	}
	code := kafka.Error(0)
	if version >= 7 {
		code = kafka.Error(int16(r.number(2)))
		r.take(4) // session
	}
	switch {
	case r.err != nil:
		return nil, errCutOff
	case id != correlation:
		return nil, fmt.Errorf("broker answers fetch with correlation id %d, want %d", id, correlation)
	case code != 0:
		return nil, code
	}
	topics := r.number(4)
	name := string(r.take(int64(r.number(2))))
	partitions, number := r.number(4), int32(r.number(4))
	code = kafka.Error(int16(r.number(2)))
	out := &fetched{highWatermark: int64(r.number(8))}
	if version >= 4 {
		r.take(8) // last stable offset
	}
	if version >= 5 {
		r.take(8) // log start offset
	}
	if version >= 4 {
		r.take(r.count() * (8 + 8)) // aborted transactions
	}
	if version >= 11 {
		r.take(4) // preferred replica
	}
	out.set = r.take(r.count())
	switch {
	case topics != 1 || partitions != 1 || name != topic || number != partition:
		return nil, fmt.Errorf("broker answers fetch about %d topics, %d partitions, want topic %s partition %d", topics,
			partitions, topic, partition)
	case code != 0:
		return nil, code
	case r.err != nil:
		return nil, errCutOff
	}
	return out, nil
}

// watchInterval is how often a group's leader counts the topic's partitions. The transport's cache asks the brokers
// less often.
const watchInterval = 500 * time.Millisecond

// dealt is the number of the topic's partitions that the group's leader assigned. kafka-go v0.4.51 has a watcher of
// its own (consumergroup.go, partitionWatcher), but it first counts after the assignment: partitions created in
// between would stay unread until the generation ends, and while the topic doesn't exist each generation ends at
// once.
type dealt struct {
	topic string
	count atomic.Int64
}

const notLeader = -1

// balancer wraps one of kafka-go's balancers and records how many partitions it assigned.
type balancer struct {
	kafka.GroupBalancer
	dealt *dealt
}

// balancers are kafka-go's defaults, in its order, so that members of all versions agree on one.
func (d *dealt) balancers() []kafka.GroupBalancer {
	return []kafka.GroupBalancer{
		balancer{kafka.RangeGroupBalancer{}, d},
		balancer{kafka.RoundRobinGroupBalancer{}, d},
	}
}

// UserData is called when a member begins to join.
func (b balancer) UserData() ([]byte, error) {
	b.dealt.count.Store(notLeader)
	return b.GroupBalancer.UserData()
}

// AssignGroups is called on the leader only.
func (b balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	n := int64(0)
	for _, p := range partitions {
		if p.Topic == b.dealt.topic {
			n++
		}
	}
	b.dealt.count.Store(n)
	return b.GroupBalancer.AssignGroups(members, partitions)
}
