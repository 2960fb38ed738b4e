package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/gputally/gputally/collector/source"
)

// A Prometheus whose labels differ in each slot doesn't take the process's memory by what is left out.
func TestWhatAHistoryLeavesOutIsBounded(t *testing.T) {
	r := historyRun{left: map[string]*leftOut{}}
	slot := source.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Minute)
	for n := range 3 * maxLeft {
		r.omit(fmt.Sprint("gpu ", n), slot)
		r.omit("always", slot)
		slot = slot.Next()
	}
	if len(r.left) != maxLeft+1 {
		t.Errorf("%d things are kept, want %d and one for all others", len(r.left), maxLeft)
	}
	if got := r.left["always"].slots; got != 3*maxLeft {
		t.Errorf("%d slots of what is known, want %d", got, 3*maxLeft)
	}
	if got, want := r.left[leftOthers].slots, 2*maxLeft+1; got != want {
		t.Errorf("%d slots of others, want %d", got, want)
	}
}
