package dcgm

import "testing"

// A reading of 64 entities is 872 values and 640 samples.
func TestValuesAllocateNothing(t *testing.T) {
	r := newRig(t, "gpus 8; mig all 1g.10gb*7; blank 0 155 absent; blank 1 155 notsupported", nil)
	r.next()
	slot := r.slot
	r.next()
	w := window{slot.Start.UnixMicro(), slot.End().UnixMicro(), r.cfg.Interval.Microseconds()}
	if n := testing.AllocsPerRun(5, func() {
		if err := r.src.readActivity(slot, w); err != nil {
			t.Fatal(err)
		}
		if err := r.src.readLatest(w); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per reading, want none per value", n)
	}
}
