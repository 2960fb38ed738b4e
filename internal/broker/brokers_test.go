package broker

import (
	"testing"
	"time"

	"github.com/gputally/gputally/internal/broker/brokertest"
)

// testBroker is a broker under test. Both kinds are asked the same questions.
type testBroker struct {
	addr     string
	embedded bool
	// stop ends the broker without a word to anyone: Apache Kafka by SIGKILL.
	// start brings it back with what it has on disk, at the same address.
	stop  func()
	start func(tb testing.TB)
}

// eachBroker runs a test on the embedded broker and on Apache Kafka.
func eachBroker(t *testing.T, test func(t *testing.T, b *testBroker)) {
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBroker(t, EmbeddedOptions{Listen: newSocket(t)})) })
	t.Run("apache", func(t *testing.T) { test(t, apacheBroker(t)) })
}

// eachForeignBroker is eachBroker for tests with clients that aren't ours.
func eachForeignBroker(t *testing.T, test func(t *testing.T, b *testBroker)) {
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBroker(t, EmbeddedOptions{listen: foreignDoor})) })
	t.Run("apache", func(t *testing.T) { test(t, apacheBroker(t)) })
}

func apacheBroker(t *testing.T) *testBroker {
	t.Helper()
	k := brokertest.Kafka(t)
	return &testBroker{addr: k.Addr(), stop: k.Kill, start: k.Restart}
}

func embeddedBroker(t *testing.T, opt EmbeddedOptions) *testBroker {
	t.Helper()
	opt.Dir, opt.RetentionCheck = t.TempDir(), 20*time.Millisecond
	e := startWith(t, opt)
	b := &testBroker{addr: e.Addr(), embedded: true}
	b.stop = func() { _ = e.Close() }
	b.start = func(tb testing.TB) { e = startWith(tb, opt) }
	return b
}
