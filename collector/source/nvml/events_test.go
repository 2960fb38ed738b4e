package nvml

import (
	"slices"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

// unheard gives the source a set of events that nobody waits for.
func (r *rig) unheard() {
	r.t.Helper()
	e := r.src.events
	uuids := e.uuids
	e.close()
	set, ret := r.src.lib.api.EventSetCreate()
	if ret != gonvml.SUCCESS {
		r.t.Fatal(ret)
	}
	for dev := range uuids {
		if ret := enlist(dev, set); ret != gonvml.SUCCESS {
			r.t.Fatal(ret)
		}
	}
	e.set, e.uuids = set, uuids
	r.t.Cleanup(func() { _ = e.set.Free() })
}

func (r *rig) codes() (out []int64) {
	for _, x := range r.src.events.take() {
		out = append(out, x.Code)
	}
	return out
}

// TestNoXIDFallsBetweenTwoSets: what happened before the new set was there is
// the old one's, which is emptied before it goes; that of the lost GPU, too.
func TestNoXIDFallsBetweenTwoSets(t *testing.T) {
	r := newRig(t, "gpus 3")
	r.read()
	r.unheard()
	r.sim.Do("xid 1 79; xid 2 31; lost 1")
	if !r.src.renewSet() {
		t.Fatal("the set was not renewed without the lost GPU")
	}
	if diff := cmp.Diff([]int64{79, 31}, r.codes()); diff != "" {
		t.Errorf("XIDs from before (-want +got):\n%s", diff)
	}
	r.sim.Do("xid 0 13")
	for _, data := range pending(r.src.events.current()) {
		r.src.happened(data)
	}
	if diff := cmp.Diff([]int64{13}, r.codes()); diff != "" {
		t.Errorf("XIDs from after (-want +got):\n%s", diff)
	}
}

// TestAnXIDOfBothSetsIsToldOnce: one that came while both were registered; the
// same XID later is another one.
func TestAnXIDOfBothSetsIsToldOnce(t *testing.T) {
	r := newRig(t, "gpus 2")
	r.read()
	r.unheard()
	r.sim.Do("xid 0 31; xid 0 31; xid 1 31")
	told := pending(r.src.events.current())
	if len(told) != 3 {
		t.Fatalf("the set told %d XIDs, want 3", len(told))
	}
	r.src.events.twice = slices.Clone(told[:1])
	for _, data := range told {
		r.src.happened(data)
	}
	if got := r.codes(); len(got) != 2 {
		t.Errorf("%d XIDs, want 2: one of them was told by the set before", len(got))
	}
	r.src.events.twice = slices.Clone(told[:1])
	r.src.events.onlyOnce()
	r.src.happened(told[0])
	if got := r.codes(); len(got) != 1 {
		t.Errorf("%d XIDs, want 1: the set before is long gone", len(got))
	}
}
