package broker

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/broker/brokertest"
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
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBroker(t)) })
	t.Run("apache", func(t *testing.T) {
		k := brokertest.Kafka(t)
		test(t, &testBroker{addr: k.Addr(), stop: k.Kill, start: k.Restart})
	})
}

func embeddedBroker(t *testing.T) *testBroker {
	t.Helper()
	dir := t.TempDir()
	e := startBroker(t, dir)
	b := &testBroker{addr: e.Addr(), embedded: true}
	b.stop = func() { _ = e.Close() }
	b.start = func(tb testing.TB) { e = startBrokerAt(tb, dir, b.addr) }
	return b
}
