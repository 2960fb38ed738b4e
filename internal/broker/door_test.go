package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/strangertest"
	"github.com/gputally/gputally/internal/unixsock"
)

// rawConn speaks Kafka's protocol without a client's restraint.
type rawConn struct{ net.Conn }

func dialRaw(tb testing.TB, e *Embedded) rawConn {
	tb.Helper()
	conn, err := unixsock.Dial(testContext(tb), strings.TrimPrefix(e.Addr(), unixScheme))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(clock.Real().Now().Add(20 * time.Second))
	return rawConn{conn}
}

// ask sends a request and reads what follows the answer's correlation id.
func (c rawConn) ask(req kmsg.Request) ([]byte, error) {
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)); err != nil {
		return nil, err
	}
	frame, err := readFrame(c)
	if err != nil {
		return nil, err
	}
	return frame[4:], nil
}

func (c rawConn) authenticate(mechanism string, data []byte) ([]byte, error) {
	if mechanism != "" {
		if _, err := c.ask(&kmsg.SASLHandshakeRequest{Version: 1, Mechanism: mechanism}); err != nil {
			return nil, err
		}
	}
	answer, err := c.ask(&kmsg.SASLAuthenticateRequest{Version: 1, SASLAuthBytes: data})
	if err != nil {
		return nil, err
	}
	res := kmsg.NewPtrSASLAuthenticateResponse()
	res.Version = 1
	if err := res.ReadFrom(answer); err != nil {
		return nil, err
	}
	return res.SASLAuthBytes, nil
}

// login proves to know a password with SCRAM.
func (c rawConn) login(m sasl.Mechanism) error {
	session, data, err := m.Start(context.Background())
	for name, done := m.Name(), false; err == nil && !done; name = "" {
		if data, err = c.authenticate(name, data); err == nil {
			done, data, err = session.Next(context.Background(), data)
		}
	}
	return err
}

// topics asks for the names of all topics, which shows them to whoever is in.
func (c rawConn) topics() error {
	_, err := c.ask(&kmsg.MetadataRequest{Version: 1})
	return err
}

func mechanism(tb testing.TB, user, password string) sasl.Mechanism {
	tb.Helper()
	m, err := scram.Mechanism(scram.SHA256, user, password)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func startProtected(tb testing.TB, dir string) *Embedded {
	tb.Helper()
	return startWith(tb, EmbeddedOptions{Dir: dir, Protected: true, RetentionCheck: -1})
}

func enter(tb testing.TB, e *Embedded) rawConn {
	tb.Helper()
	c := dialRaw(tb, e)
	if err := c.login(EmbeddedSASL(e.Password())); err != nil {
		tb.Fatal(err)
	}
	return c
}

func expectAlive(tb testing.TB, e *Embedded) {
	tb.Helper()
	if err := enter(tb, e).topics(); err != nil {
		tb.Fatalf("the broker no longer answers: %v", err)
	}
}

// oldDirectory has what an earlier version left: a PLAIN user, whose broker takes
// an empty password of anybody else.
func oldDirectory(t *testing.T) string {
	dir := t.TempDir()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(filepath.Join(dir, "data")), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", embeddedUser, "old"))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Close()
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestC1UnknownUserIsRefused, and whatever else is not the right user with the
// right password by SCRAM, on a new directory and on an old one.
func TestC1UnknownUserIsRefused(t *testing.T) {
	for where, dir := range map[string]string{"new": t.TempDir(), "old": oldDirectory(t)} {
		e := startProtected(t, dir)
		plain := func(user, password string) func(rawConn) error {
			return func(c rawConn) error {
				_, err := c.authenticate("PLAIN", []byte("\x00"+user+"\x00"+password))
				return err
			}
		}
		for name, attack := range map[string]func(rawConn) error{
			"no log-in":                    func(rawConn) error { return nil },
			"unknown user, empty password": plain("nobody", ""),
			"no user, no password":         plain("", ""),
			"the right one, but PLAIN":     plain(embeddedUser, e.Password()),
			"wrong password":               func(c rawConn) error { return c.login(mechanism(t, embeddedUser, "wrong")) },
			"empty password":               func(c rawConn) error { return c.login(mechanism(t, embeddedUser, "")) },
			"unknown user, right password": func(c rawConn) error { return c.login(mechanism(t, "nobody", e.Password())) },
			"kfake's own bootstrap user":   func(c rawConn) error { return c.login(mechanism(t, "admin", "admin")) },
			"half a log-in": func(c rawConn) error {
				_, err := c.authenticate("SCRAM-SHA-256", []byte("n,,n=gputally,r=v="))
				return err
			},
			"a log-in that says it has finished": func(c rawConn) error {
				_,
					err := c.authenticate("SCRAM-SHA-256", []byte("v="))
				return err
			},
		} {
			c := dialRaw(t, e)
			tried := attack(c)
			if err := c.topics(); err == nil {
				t.Errorf("%s directory, %s: the broker answered, after %v", where, name, tried)
			}
		}
		expectAlive(t, e)
	}
}

// TestC1NobodyDeletesDecisions, nor alters what keeps them, nor makes others who
// may.
func TestC1NobodyDeletesDecisions(t *testing.T) {
	e := startProtected(t, t.TempDir())
	c := newTestClient(t, e.Addr(), func(cfg *Config) { cfg.SASL = EmbeddedSASL(e.Password()) })
	if err := c.EnsureTopics(testContext(t), TopicDecisions); err != nil {
		t.Fatal(err)
	}
	msgs := samples(0, 10)
	for i := range msgs {
		msgs[i].Topic = TopicDecisions
	}
	if err := c.Producer().Produce(testContext(t), msgs); err != nil {
		t.Fatal(err)
	}
	offered := kmsg.NewPtrApiVersionsResponse()
	answer, err := enter(t, e).ask(&kmsg.ApiVersionsRequest{})
	if err != nil || offered.ReadFrom(answer) != nil {
		t.Fatal("api versions", err)
	}
	for _, k := range offered.ApiKeys {
		if v, ok := ownKeys[k.ApiKey]; !ok || k.MinVersion != v.oldest || k.MaxVersion > v.newest {
			t.Errorf("the broker offers %s, versions %d to %d", kmsg.NameForKey(k.ApiKey), k.MinVersion, k.MaxVersion)
		}
	}
	for key := range int16(100) {
		req := kmsg.RequestForKey(key)
		if _, ok := ownKeys[key]; ok || req == nil {
			continue
		}
		if deletion, ok := req.(*kmsg.DeleteTopicsRequest); ok {
			deletion.TopicNames = []string{TopicDecisions}
		}
		if _, err := enter(t, e).ask(req); err == nil {
			t.Errorf("%s was answered", kmsg.NameForKey(key))
		}
	}
	if got := wholeTopic(t, c, TopicDecisions); len(got) != len(msgs) {
		t.Errorf("%d decisions are left of %d", len(got), len(msgs))
	}
}

// strangerVar makes the test binary the child of TestC1AnotherUserIsRefused.
const strangerVar = "GPUTALLY_TEST_STRANGER_SOCKET"

// knock asks for the API versions, which needs no log-in, and prints what came.
func knock(path string) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = conn.SetDeadline(clock.Real().Now().Add(10 * time.Second))
		_, err = rawConn{conn}.ask(&kmsg.ApiVersionsRequest{})
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		fmt.Println("no permission")
	case err != nil:
		fmt.Println("hung up")
	default:
		fmt.Println("answered")
	}
}

// TestC1AnotherUserIsRefused by the folder, by the socket's mode, and by
// SO_PEERCRED where both are open.
func TestC1AnotherUserIsRefused(t *testing.T) {
	e := startProtected(t, t.TempDir())
	path := strings.TrimPrefix(e.Addr(), unixScheme)
	for _, step := range []struct {
		folder, socket os.FileMode
		want           string
		refused        float64
	}{
		{0o700, 0o600, "no permission\n", 0},
		{0o755, 0o600, "no permission\n", 0},
		{0o755, 0o666, "hung up\n", 1},
	} {
		cmd := strangertest.Command(t, strangerVar+"="+path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); step.socket == 0o600 && got != 0o600 {
			t.Errorf("the socket has mode %o, want 600", got)
		}
		if err := errors.Join(os.Chmod(filepath.Dir(path), step.folder), os.Chmod(path, step.socket)); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		if err != nil || string(out) != step.want {
			t.Errorf("folder %o, socket %o: the stranger says %q, %v; want %q", step.folder, step.socket, out, err, step.want)
		}
		if got := testutil.ToFloat64(e.door.refused.WithLabelValues("user")); got != step.refused {
			t.Errorf("folder %o, socket %o: %v strangers were refused, want %v", step.folder, step.socket, got, step.refused)
		}
	}
	expectAlive(t, e)
}

// TestH1FourteenBytesBeforeLogin ended the process.
func TestH1FourteenBytesBeforeLogin(t *testing.T) {
	e := startProtected(t, t.TempDir())
	c := dialRaw(t, e)
	if _, err := c.Write([]byte("\x00\x00\x00\x0a\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection was not closed: %v", err)
	}
	if got := testutil.ToFloat64(e.door.refused.WithLabelValues("key")); got != 1 {
		t.Errorf("%v connections were closed for an unknown key, want 1", got)
	}
	expectAlive(t, e)
}

// TestH1NoRequestHasTaggedFields: a count of 2^32 of them kept a core busy for a
// minute, before log-in.
func TestH1NoRequestHasTaggedFields(t *testing.T) {
	for key, allowed := range ownKeys {
		req := kmsg.RequestForKey(key)
		req.SetVersion(allowed.newest)
		if req.IsFlexible() {
			t.Errorf("version %d of %s has tagged fields", allowed.newest, kmsg.NameForKey(key))
		}
	}
}

// TestH1OddHeaders: every key with odd versions and lengths, before log-in and
// after it, with a body of zeros, of 0xff, and of none.
func TestH1OddHeaders(t *testing.T) {
	e := startProtected(t, t.TempDir())
	for key := int16(-1); key <= 101; key++ {
		for _, version := range []int16{-32768, -1, 0, 1, 3, 5, 9, 14, 32767} {
			for _, length := range []int{-1, 0, 1, 9, 10, 11, 64, 1 << 10} {
				c := dialRaw(t, e)
				if key%10 == 0 && version == 3 { // log-ins take time
					c = enter(t, e)
				}
				frame := binary.BigEndian.AppendUint32(nil, uint32(int32(length)))
				frame = binary.BigEndian.AppendUint16(frame, uint16(key))
				frame = binary.BigEndian.AppendUint16(frame, uint16(version))
				for len(frame) < 4+length {
					frame = append(frame, byte(0xff*(length&1)))
				}
				_, _ = c.Write(frame) // it may be closed by now
				_ = c.Close()
			}
		}
	}
	expectAlive(t, e)
}

// TestH1OldLayoutsAreRefused: soundProduce would misread them, and whatever kfake
// doesn't serve is refused before kmsg makes room for it.
func TestH1OldLayoutsAreRefused(t *testing.T) {
	e := startProtected(t, t.TempDir())
	refused := 0.0
	for key, oldest := range map[kmsg.Key]int16{kmsg.Produce: 3, kmsg.Fetch: 4, kmsg.SASLHandshake: 1} {
		for version := range oldest {
			req := key.Request()
			req.SetVersion(version)
			if produce, ok := req.(*kmsg.ProduceRequest); ok {
				produce.Acks, produce.TimeoutMillis = -1, 1<<16 // misread as no transaction and acks=1
			}
			_, err := enter(t, e).ask(req)
			refused++
			if got := testutil.ToFloat64(e.door.refused.WithLabelValues("version")); err == nil || got != refused {
				t.Errorf("%s, version %d: answered with %v; %v were refused for their version, want %v", key.Name(), version, err,
					got, refused)
			}
		}
	}
	expectAlive(t, e)
}

// heapBytes is what the process holds now.
func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestH2AnnouncedBytesTakeNoMemory: 200 connections announce 2 GB each before
// log-in and send on, 60 announce the largest produce request after it.
func TestH2AnnouncedBytesTakeNoMemory(t *testing.T) {
	e := startProtected(t, t.TempDir())
	before, zeros := heapBytes(), make([]byte, 1<<20)
	announce := func(c rawConn, length uint32, key, version uint16) {
		frame := binary.BigEndian.AppendUint32(nil, length)
		frame = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(frame, key), version)
		_, _ = c.Write(frame)
	}
	for range 200 {
		c := dialRaw(t, e)
		announce(c, 0x7fffffff, 18, 0)
		if _, err := c.Write(zeros); err == nil {
			_, err = c.Write(zeros) // the first may have been on its way
			if err == nil {
				t.Error("a connection that announced 2 GB is still open")
			}
		}
	}
	for range 60 {
		c := enter(t, e)
		announce(c, maxProduceBytes, uint16(kmsg.Produce), 3)
		awaitRead(t, c)
	}
	expectAlive(t, e) // the door has come to what follows the last header
	if grown := int64(heapBytes()) - int64(before); grown > 48<<20 {
		t.Errorf("%d bytes are held for requests that never came, want 48 MiB or less", grown)
	}
}

// awaitRead waits until the other side has read all that was sent (SIOCOUTQ).
func awaitRead(t *testing.T, c rawConn) {
	t.Helper()
	raw, err := c.Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for ctx := testContext(t); ; runtime.Gosched() {
		left := 0
		if ctlErr := raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); ctlErr != nil ||
			err != nil {
			t.Fatal(ctlErr, err)
		}
		if left == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d bytes are not read", left)
		}
	}
}

// doorWith is a broker whose door has other limits.
func doorWith(tb testing.TB, change func(*doorLimits)) *Embedded {
	tb.Helper()
	return startWith(tb,
		EmbeddedOptions{
			Dir: tb.TempDir(), Protected: true, RetentionCheck: -1, Listen: newSocket(tb),
			listen: func(address string) (*door, error) {
				listener, err := unixsock.Listen(context.Background(), strings.TrimPrefix(address, unixScheme))
				if err != nil {
					return nil, err
				}
				d := newDoor(listener, EmbeddedOptions{Log: quiet(), Protected: true})
				change(&d.limits)
				d.address = namedAddr(address)
				return d.open(), nil
			},
		})
}

type namedAddr string

func (namedAddr) Network() string  { return "unix" }
func (a namedAddr) String() string { return string(a) }

// TestH2ConnectionsAreBounded: one more is closed, and has a place once another
// is gone.
func TestH2ConnectionsAreBounded(t *testing.T) {
	e := doorWith(t, func(l *doorLimits) { l.connections, l.place = 4, time.Millisecond })
	closed := func(c rawConn) bool {
		_, err := c.ask(&kmsg.ApiVersionsRequest{})
		return err != nil
	}
	var open []rawConn
	for i := range 6 {
		c := dialRaw(t, e)
		if got, want := closed(c), i >= 4; got != want {
			t.Errorf("connection %d is closed: %t, want %t", i, got, want)
		}
		open = append(open, c)
	}
	if got := testutil.ToFloat64(e.door.refused.WithLabelValues("connections")); got != 2 {
		t.Errorf("%v connections were refused, want 2", got)
	}
	_ = open[0].Close()
	for ctx := testContext(t); closed(dialRaw(t, e)); {
		if ctx.Err() != nil {
			t.Fatal("a place that was left is not given again")
		}
	}
}

// TestClosedConnectionIsAnswered: kfake may write after it has closed; what the
// request held is freed once, or the semaphore panics.
func TestClosedConnectionIsAnswered(t *testing.T) {
	d := newDoor(nil, EmbeddedOptions{Log: quiet(), Protected: true}).open()
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	if !d.places.TryAcquire(1) {
		t.Fatal("no place")
	}
	c := d.newConn(ours)
	if err := c.take(int16(kmsg.ApiVersions), 100); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_, _ = c.Write(make([]byte, 20)) // nobody reads it
	if err := c.take(int16(kmsg.ApiVersions), 100); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a request on a closed connection: %v, want net.ErrClosed", err)
	}
	if !d.others.TryAcquire(othersMemory) {
		t.Error("memory was not freed")
	}
}

// TestH2SlowConnectionsAreClosed: one that doesn't log in; one that has, and is
// idle or sends half a request.
func TestH2SlowConnectionsAreClosed(t *testing.T) {
	const short = 30 * time.Millisecond
	const half = "\x00\x00\x00\x20\x00\x12\x00\x00"
	for name, test := range map[string]struct {
		limit func(*doorLimits) *time.Duration
		known bool
		send  string
	}{
		"nothing before log-in":        {func(l *doorLimits) *time.Duration { return &l.login }, false, ""},
		"half a length before log-in":  {func(l *doorLimits) *time.Duration { return &l.login }, false, half[:2]},
		"half a request before log-in": {func(l *doorLimits) *time.Duration { return &l.login }, false, half},
		"nothing after log-in":         {func(l *doorLimits) *time.Duration { return &l.idle }, true, ""},
		"half a length after log-in":   {func(l *doorLimits) *time.Duration { return &l.idle }, true, half[:2]},
		"half a request after log-in":  {func(l *doorLimits) *time.Duration { return &l.request }, true, half},
	} {
		e := doorWith(t, func(l *doorLimits) {
			l.login, l.idle, l.request = time.Hour, time.Hour, time.Hour
			*test.limit(l) = short
		})
		c := dialRaw(t, e)
		if test.known {
			c = enter(t, e)
		}
		_, _ = c.Write([]byte(test.send)) // it may be closed by now
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: the connection is still open: %v", name, err)
		}
		if got := testutil.ToFloat64(e.door.refused.WithLabelValues("timeout")); got != 1 {
			t.Errorf("%s: %v connections were closed for being slow, want 1", name, got)
		}
	}
}

// failing is a listener whose process is out of file descriptors at first.
type failing struct {
	net.Listener
	failures int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.failures--; f.failures >= 0 {
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

// TestDoorOutlastsAFailedAccept: kfake would accept nothing any more.
func TestDoorOutlastsAFailedAccept(t *testing.T) {
	path := strings.TrimPrefix(newSocket(t), unixScheme)
	listener, err := unixsock.Listen(testContext(t), path)
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(&failing{Listener: listener, failures: 2}, EmbeddedOptions{Log: quiet()}).open()
	context.AfterFunc(testContext(t), func() { _ = listener.Close() }) // ends Accept
	if _, err := unixsock.Dial(testContext(t), path); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Accept(); err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(d.refused.WithLabelValues("accept")); got != 2 {
		t.Errorf("%v failures were counted, want 2", got)
	}
	_ = listener.Close()
	if _, err := d.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener: %v, want net.ErrClosed", err)
	}
}

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

// TestH1ProduceBeyondItsEndIsRefused: a length that is more than what follows, of
// anything in the request.
func TestH1ProduceBeyondItsEndIsRefused(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = newestPlainProduce, -1
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, partition.Records = TopicSamples, []byte("records")
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	frame := append(make([]byte, requestBodyAt), 0, 0) // no client id
	frame = req.AppendTo(frame)
	if !soundProduce(frame, newestPlainProduce) {
		t.Fatal("a whole request is refused")
	}
	for n := requestBodyAt; n < len(frame); n++ {
		if soundProduce(frame[:n:n], newestPlainProduce) {
			t.Errorf("the first %d of %d bytes are taken for a request", n, len(frame))
		}
	}
}
