package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

// doorConn is the connection that kfake reads. kfake reads from one goroutine, writes a whole answer at once, and
// answers in the order of the requests.
type doorConn struct {
	net.Conn
	door *door
	rest []byte // unread bytes of the current request

	mu      sync.Mutex
	waiting []request // passed on, not yet answered
	known   bool      // logged in, or no log-in is required
	closed  bool
	settled chan struct{} // not nil: the client has gone; closed when kfake has answered all requests
}

// request is the memory accounting of an unanswered request.
type request struct {
	key    int16
	cost   int64 // bytes
	memory *semaphore.Weighted
}

func (d *door) newConn(conn net.Conn) *doorConn {
	c := &doorConn{Conn: conn, door: d, known: !d.protected}
	_ = conn.SetDeadline(d.clock.Now().Add(d.limits.login)) // if it can't be set, the next read fails
	return c
}

// Read returns the bytes of complete requests.
func (c *doorConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		frame, err := c.next()
		if err != nil {
			return 0, err
		}
		c.rest = frame
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil // release the array
	}
	return n, nil
}

// A request begins with its length, which counts from the API key on: key and version (2 bytes each), correlation id
// (4), client id (its length in 2).
const (
	lengthBytes    = 4
	requestKeyAt   = lengthBytes
	requestBodyAt  = requestKeyAt + 2 + 2 + 4 // where the client id begins
	leastRequest   = 2 + 2 + 4 + 2
	keyAndVersions = 2 + 2
)

var errRefused = errors.New("request refused")

// next reads one request, including its length.
func (c *doorConn) next() ([]byte, error) {
	if c.isKnown() {
		c.readWithin(c.door.limits.idle)
	}
	var head [lengthBytes + keyAndVersions]byte
	if _, err := io.ReadFull(c.Conn, head[:lengthBytes]); err != nil {
		c.awaitJoin()
		return nil, c.lost(err)
	}
	if c.isKnown() {
		c.readWithin(c.door.limits.request)
	}
	length := int64(int32(binary.BigEndian.Uint32(head[:])))
	if length < leastRequest || length > maxProduceBytes {
		return nil, c.refuse("length", "bytes", length)
	}
	if _, err := io.ReadFull(c.Conn, head[lengthBytes:]); err != nil {
		return nil, c.lost(err)
	}
	key, version := int16(binary.BigEndian.Uint16(head[4:])), int16(binary.BigEndian.Uint16(head[6:]))
	if reason := c.check(key, version, length); reason != "" {
		return nil, c.refuse(reason, "key", key, "version", version, "bytes", length)
	}
	if err := c.take(key, length); err != nil {
		return nil, err
	}
	frame := make([]byte, lengthBytes+length)
	copy(frame, head[:])
	if _, err := io.ReadFull(c.Conn, frame[len(head):]); err != nil {
		return nil, c.lost(err)
	}
	if key == int16(kmsg.Produce) && !soundProduce(frame, version) {
		return nil, c.refuse("produce", "version", version, "bytes", length)
	}
	return frame, nil
}

// check returns the reason for refusing a request; empty: it is accepted.
func (c *doorConn) check(key, version int16, length int64) string {
	allowed, ok := c.door.keys[key]
	switch {
	case !ok:
		return "key"
	case version < allowed.oldest || version > allowed.newest:
		return "version"
	case !c.isKnown() && !allowed.login:
		return "login"
	case key != int16(kmsg.Produce) && length > maxRequestBytes:
		return "length"
	}
	return ""
}

// take waits for the memory that a request needs, and records it until the answer.
func (c *doorConn) take(key int16, length int64) error {
	r := request{key: key, cost: requestWeight * length, memory: c.door.others}
	if key == int16(kmsg.Produce) {
		r.memory = c.door.produce
	}
	if r.memory == c.door.produce || c.door.keys[key].login {
		r.cost = copyWeight * length
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.door.limits.request)
	defer cancel()
	if r.memory.Acquire(ctx, r.cost) != nil {
		return c.refuse("memory", "bytes", length)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		r.memory.Release(r.cost)
		return net.ErrClosed
	}
	c.waiting = append(c.waiting, r)
	return nil
}

// Write sends one answer.
func (c *doorConn) Write(p []byte) (int, error) {
	c.answered(p)
	if c.isKnown() {
		_ = c.SetWriteDeadline(c.door.clock.Now().Add(c.door.limits.request)) // if it can't be set, the write fails
	}
	return c.Conn.Write(p)
}

// answered frees the memory of the oldest request, and reads from its answer whether the client has logged in.
func (c *doorConn) answered(answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return
	}
	r := c.waiting[0]
	c.waiting = c.waiting[1:]
	r.memory.Release(r.cost)
	c.settle()
	if !c.known && r.key == int16(kmsg.SASLAuthenticate) && loggedIn(answer) {
		c.known = true
		c.readWithin(c.door.limits.idle)
	}
}

// loggedIn parses an answer to SaslAuthenticate, versions 0 and 1: length, correlation id, error code, error text,
// and the mechanism's bytes, which begin with the server's signature when SCRAM has finished (RFC 5802, section 7).
func loggedIn(answer []byte) bool {
	r := byteReader{rest: answer}
	r.take(4 + 4)
	code := r.number(2)
	r.text()
	signature := r.take(r.count())
	return r.err == nil && code == 0 && bytes.HasPrefix(signature, []byte("v=")) && len(signature) > 2
}

// maxProduceParts bounds the topics and partitions of one produce request together; our producer sends one of each.
const maxProduceParts = 1024

// newestPlainProduce is the last version without compact lengths (KIP-482).
const newestPlainProduce = 8

// soundProduce returns whether the lengths of a produce request of version 3 or later lie within it, it names at most
// maxProduceParts partitions, and it requests an answer: without one (acks=0) its memory would never be freed.
func soundProduce(frame []byte, version int16) bool {
	if version > newestPlainProduce {
		return true // only clients in tests use such versions
	}
	r := byteReader{rest: frame[requestBodyAt:]}
	r.text() // client id
	r.text() // transactional id
	if acks := r.number(2); acks == 0 {
		return false
	}
	r.take(4) // timeout
	parts := 0
	for range r.count() {
		r.text()
		partitions := r.count()
		if parts += 1 + int(partitions); parts > maxProduceParts {
			return false
		}
		for range partitions {
			r.take(4)
			r.take(r.count())
		}
	}
	return r.err == nil && len(r.rest) == 0
}

// Close frees what the connection holds.
func (c *doorConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for _, r := range c.waiting {
		r.memory.Release(r.cost)
	}
	c.waiting = nil // kfake may still write an answer
	c.settle()
	c.door.places.Release(1)
	return c.Conn.Close()
}

// awaitJoin keeps the connection of a client that has gone until kfake has answered its JoinGroup request. kfake starts
// a member's session only if it could send that answer: without one the member would keep its partitions for ever,
// and nobody would read them.
func (c *doorConn) awaitJoin() {
	c.mu.Lock()
	joins := func(r request) bool { return r.key == int16(kmsg.JoinGroup) }
	if !slices.ContainsFunc(c.waiting, joins) {
		c.mu.Unlock()
		return
	}
	settled := make(chan struct{})
	c.settled = settled
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.door.limits.idle)
	defer cancel()
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

// settle wakes awaitJoin when no request is left; the caller holds the lock.
func (c *doorConn) settle() {
	if c.settled != nil && len(c.waiting) == 0 {
		close(c.settled)
		c.settled = nil
	}
}

func (c *doorConn) isKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

func (c *doorConn) readWithin(d time.Duration) {
	_ = c.SetReadDeadline(c.door.clock.Now().Add(d)) // if it can't be set, the read fails
}

func (c *doorConn) refuse(reason string, attrs ...any) error {
	c.door.refuse(reason, attrs...)
	return errRefused
}

// lost counts clients that exceeded a timeout; other errors are closed connections.
func (c *doorConn) lost(err error) error {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return c.refuse("timeout")
	}
	return err
}
