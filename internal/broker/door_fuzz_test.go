package broker

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/clock"
)

// FuzzDoor sends bytes before log-in, then, logged in, a request of one of our
// keys whose body is body. A panic of kfake ends the fuzzer; so do a broker that
// no longer answers within 10 s, and one that holds 256 MiB.
func FuzzDoor(f *testing.F) {
	e := startProtected(f, f.TempDir())
	mechanism := EmbeddedSASL(e.Password())
	keys := []int16{}
	for key := range ownKeys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	formatter := kmsg.NewRequestFormatter()
	f.Add([]byte("\x00\x00\x00\x0a\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff"), byte(0), byte(0), []byte(nil))
	f.Add([]byte("\x7f\xff\xff\xff\x00\x12\x00\x00"), byte(0), byte(0), []byte{0xff})
	for i, key := range keys {
		for version := ownKeys[key].oldest; version <= ownKeys[key].newest; version++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			frame := formatter.AppendRequest(nil, req, 7)
			f.Add(frame, byte(i), byte(version), req.AppendTo(nil))
		}
	}
	for _, partitions := range []int32{-1, 1, maxPartitions, math.MaxInt32} {
		for _, name := range []string{TopicSamples, "another"} {
			req := createRequest(name, partitions)
			f.Add([]byte(nil), byte(slices.Index(keys, req.Key())), byte(req.Version), req.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, before []byte, key, version byte, body []byte) {
		send := func(c rawConn, bytes []byte) {
			_ = c.SetDeadline(clock.Real().Now().Add(10 * time.Second))
			_, _ = c.Write(bytes) // it may be closed by now
		}
		stranger := dialRaw(t, e)
		send(stranger, before)
		_ = stranger.Close()
		member := dialRaw(t, e)
		if err := member.login(mechanism); err != nil {
			t.Fatal(err)
		}
		api := keys[int(key)%len(keys)]
		frame := binary.BigEndian.AppendUint32(nil, uint32(leastRequest+len(body)))
		frame = binary.BigEndian.AppendUint16(frame, uint16(api))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version)%uint16(ownKeys[api].newest+1))
		frame = append(frame, 0, 0, 0, 7, 0xff, 0xff)
		send(member, append(frame, body...))
		_ = member.Close()
		other := dialRaw(t, e)
		if err := other.login(mechanism); err != nil {
			t.Fatalf("the broker no longer answers: %v", err)
		}
		if err := other.topics(); err != nil {
			t.Fatalf("the broker no longer answers: %v", err)
		}
		_ = other.Close()
		if n := heapBytes(); n > 256<<20 {
			t.Fatalf("%d bytes are held", n)
		}
	})
}
