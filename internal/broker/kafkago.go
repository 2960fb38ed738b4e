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

// Of kafka-go v0.4.51 this package uses the protocol's requests (Client, Transport)
// and the group's membership (ConsumerGroup). What it does itself, and why:
//
//   - It reads the answer to a fetch (fetchCall, here, and records.go). kafka-go
//     believes every length and count of a record (protocol/record_v2.go), and drops a
//     batch's max timestamp, which is where a topic with
//     message.timestamp.type=LogAppendTime has the time of the append. Its Reader also
//     passes over offsets that are gone without a word, which would be lost batches (C3).
//   - It counts the partitions that the group's leader assigned (dealt, here).
//   - It sends produce requests itself (producer.go). kafka-go's Writer goes on sending
//     after the caller's context has ended, so that who asks again overtakes the first
//     attempt and breaks the order of a key; it gives up at errors that it takes for
//     permanent, such as UNKNOWN_SERVER_ERROR, which is what a full disk of the
//     embedded broker answers; one message that is refused fails its whole batch; and
//     its pauses are by the wall clock.

// fetched is what a partition's leader answered.
type fetched struct {
	set           []byte // the record batches as the broker has them; the last may be cut off
	highWatermark int64
}

// ApiKey makes it a protocol.Message.
func (*fetched) ApiKey() protocol.ApiKey { return protocol.Fetch }

// fetchCall is a fetch request that reads its answer itself.
type fetchCall struct {
	fetch.Request
	clientID string
	version  int16
}

var _ protocol.RawExchanger = (*fetchCall)(nil)

// Required notes the connection's version of the request; kafka-go calls it
// right before RawExchange, for any connection.
func (f *fetchCall) Required(versions map[protocol.ApiKey]int16) bool {
	f.version = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads the response, alone on the connection
// until it returns.
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

// maxFrameBytes bounds what a broken peer can have us allocate; MaxBytes of the
// request is no bound, since a larger batch still arrives, alone, if the topic's
// max.message.bytes lets it in.
const maxFrameBytes = 64 << 20

// readFrame reads one response: its length in 4 bytes, and what they count, which
// it returns.
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

// errCutOff is an answer that is shorter than it says.
var errCutOff = errors.New("broker's answer to fetch is cut off")

// parseFetch reads a response about the one partition asked for, laid out as in
// Kafka's "Fetch Response" up to version 11.
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

// watchInterval is how often a group's leader counts the topic's partitions. The
// transport asks the brokers less often.
const watchInterval = 500 * time.Millisecond

// dealt is how many of the topic's partitions the group's leader had to assign.
// kafka-go v0.4.51 has a watcher of its own (consumergroup.go,
// partitionWatcher), but that counts for the first time after the assignment: a
// topic that appears, or grows, in between stays unread for as long as the
// generation lasts, and until there is a topic each generation ends at once.
type dealt struct {
	topic string
	count atomic.Int64
}

const notLeader = -1

// balancer is one of kafka-go's that notes what it was given to assign.
type balancer struct {
	kafka.GroupBalancer
	dealt *dealt
}

// balancers are kafka-go's defaults, in its order, so that members of all
// versions agree on one.
func (d *dealt) balancers() []kafka.GroupBalancer {
	return []kafka.GroupBalancer{
		balancer{kafka.RangeGroupBalancer{}, d},
		balancer{kafka.RoundRobinGroupBalancer{}, d},
	}
}

// UserData is asked for as a member begins to join.
func (b balancer) UserData() ([]byte, error) {
	b.dealt.count.Store(notLeader)
	return b.GroupBalancer.UserData()
}

// AssignGroups is asked of the leader alone.
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
