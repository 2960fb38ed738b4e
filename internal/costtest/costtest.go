// Package costtest bounds what code under test takes: in goes the code, out come
// the time it took and the memory it allocated or held. What can go wrong: others
// who allocate in the process at the same time are counted, too.
package costtest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

// Time is what one input of a fuzzer may take, with instrumentation and on a
// busy machine: a bound against work that grows faster than its input.
const Time = 10 * time.Second

// Within runs do and fails where that took longer than limit, or allocated more
// than bytes in all.
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

// Peak runs do and returns the most that the heap held meanwhile beyond what it
// held before, in bytes, looked at every few milliseconds. What is garbage already
// counts too; the collector runs often, so that there is little of it.
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
