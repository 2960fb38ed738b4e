// Package costtest bounds the time and memory of code under test. Data in: the code.
// Data out: the time it took and the memory that it allocated or held. What can go
// wrong: memory that other goroutines allocate at the same time is counted, too.
package costtest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

// Time is the limit for one input of a fuzzer, with instrumentation and on a busy
// machine. It finds work that grows faster than its input.
const Time = 10 * time.Second

// Within runs do and fails the test if that took longer than limit, or allocated more
// than bytes in total.
func Within(t testing.TB, limit time.Duration, bytes uint64, do func()) {
	t.Helper()
	began, before := clock.Real().Now(), read("/gc/heap/allocs:bytes")
	do()
	if took := clock.Real().Since(began); took > limit {
		t.Errorf("took %s, want at most %s", took, limit)
	}
	if allocated := read("/gc/heap/allocs:bytes") - before; allocated > bytes {
		t.Errorf("allocated %d bytes, want at most %d", allocated, bytes)
	}
}

// Peak runs do and returns by how many bytes the heap grew at most meanwhile, sampled
// every few milliseconds. Garbage counts, too; the collector runs often, so that there
// is little of it.
func Peak(do func()) (bytes uint64) {
	const gcPercent = 50
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	runtime.GC()
	before := read("/memory/classes/heap/objects:bytes")
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		ticker := clock.Real().NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		most := before
		for {
			most = max(most, read("/memory/classes/heap/objects:bytes"))
			select {
			case <-ticker.C():
			case <-done:
				peak <- most
				return
			}
		}
	}()
	do()
	close(done)
	return <-peak - before
}

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
