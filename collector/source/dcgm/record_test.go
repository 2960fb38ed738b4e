package dcgm

import (
	"testing"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/collector/source/local"
)

// oneInstance is a source whose layout is a GPU with an instance, entity 3,
// that was first seen at 14 s.
func oneInstance() *Source {
	l := &layout{index: map[uint64]int{}, boards: []local.GPU{{UUID: "GPU-a", Instances: make([]local.Instance, 1)}}}
	l.addPart(part{entity: newEntity(godcgm.FE_GPU, 0), leaf: onBoard, where: gpustate.Whole})
	l.addPart(part{entity: newEntity(godcgm.FE_GPU_CI, 3), where: gpustate.ComputeInstance(1, 0), sinceUS: 14e6})
	return &Source{metrics: newMetrics(prometheus.NewRegistry()), session: &session{layout: l}, history: newHistory()}
}

// at sets the time of a record, in seconds.
func at(r record, seconds int) *record {
	for range seconds {
		r.ts_us += 1_000_000
	}
	return &r
}

func TestWhichXIDsAreNews(t *testing.T) {
	xid := record{group: 5, entity: 3, field: 230, _type: 'i', value: 79}
	onGPU, other, gone, failed, none, blank := xid, xid, xid, xid, xid, xid
	onGPU.group, onGPU.entity = 1, 0
	other.field = 231
	gone.entity = 4
	failed.status = -45
	none.value = 0
	blank.value = 0x7ffffffffffffff0 // DCGM_INT64_BLANK
	for name, c := range map[string]struct {
		record *record
		want   int
	}{
		"news":                           {at(xid, 16), 1},
		"seen already":                   {at(xid, 15), 0},
		"of the instance before":         {at(xid, 13), 0},
		"of the board":                   {at(onGPU, 13), 1},
		"of the board, before we looked": {at(onGPU, 10), 0},
		"another field":                  {at(other, 16), 0},
		"no entity of ours":              {at(gone, 16), 0},
		"no value":                       {at(failed, 16), 0},
		"no error":                       {at(none, 16), 0},
		"blank":                          {at(blank, 16), 0},
	} {
		s := oneInstance()
		s.history.connected(10e6)
		if name == "seen already" {
			s.history.xids[place{"GPU-a", gpustate.ComputeInstance(1, 0)}] = 15e6
		}
		s.takeXID(c.record)
		s.takeXID(c.record) // DCGM shows it again
		if len(s.pending.xids) != c.want {
			t.Errorf("%s: %d XIDs, want %d", name, len(s.pending.xids), c.want)
		}
	}
}

func TestWhichLatestValuesCount(t *testing.T) {
	v := record{group: 5, entity: 3, field: 252, _type: 'i', value: 500}
	text, failed, blank, unwatched, onGPU := v, v, v, v, v
	text._type = 's'
	failed.status = -45
	blank.value = 0x7ffffff0 + 2 // DCGM_INT32_NOT_SUPPORTED
	unwatched.field = 1004
	onGPU.group, onGPU.entity = 1, 0
	for name, c := range map[string]struct {
		record *record
		absent string // empty: it counts, or isn't counted at all
		want   int
	}{
		"fresh":                         {at(v, 16), "", 1},
		"of the instance before":        {at(v, 14), absentStale, 0},
		"after the clock was set back":  {at(v, 23), absentStale, 0},
		"text":                          {at(text, 16), absentType, 0},
		"no value":                      {at(failed, 16), absentStatus, 0},
		"blank":                         {at(blank, 16), absentBlank, 0},
		"profiling that isn't watched":  {at(unwatched, 16), "", 0},
		"a board's, an interval before": {at(onGPU, 8), "", 1},
		"a board's, older":              {at(onGPU, 7), absentStale, 0},
	} {
		s := oneInstance()
		s.takeLatest(c.record, window{10e6, 20e6, 2e6})
		b := s.session.layout.boards[0]
		if n := len(b.Values) + len(b.Instances[0].Values); n != c.want {
			t.Errorf("%s: %d values, want %d", name, n, c.want)
		}
		for _, reason := range []string{absentStatus, absentBlank, absentStale, absentType} {
			want := 0.0
			if reason == c.absent {
				want = 1
			}
			if got := counterValue(t, s.metrics.absent.WithLabelValues(reason)); got != want {
				t.Errorf("%s: %v counted as %s, want %v", name, got, reason, want)
			}
		}
	}
}

func TestRenumberedGPUsAreForgotten(t *testing.T) {
	known := map[uint32]identity{0: {uuid: "a"}, 1: {uuid: "b"}}
	forgetRenumbered(known, map[uint32]identity{0: {uuid: "a"}})
	if len(known) != 2 {
		t.Errorf("known are %v, want both", known)
	}
	forgetRenumbered(known, map[uint32]identity{0: {uuid: "b"}})
	if len(known) != 0 {
		t.Errorf("known are %v, want none: GPU 1 may be any", known)
	}
}
