package local

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/internal/wire"
)

// R1, R10: nobody watched the node from the last good look to the next.
func TestR10TimeNobodyWatchedIsNotObserved(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	type look struct {
		at   float64
		good bool
	}
	for _, c := range []struct {
		name       string
		looks      []look
		read       float64
		want       [][2]int64 // nil: all
		unobserved bool
	}{
		{"all good", []look{{0, true}, {3, true}, {9, true}}, 10, nil, false},
		{"one failed", []look{{2, true}, {3, false}, {4, true}}, 10, [][2]int64{{0, 2000}, {4000, 10000}}, false},
		{"two gaps", []look{{1, true}, {2, false}, {3, false}, {4, true}, {6, true}, {7, false}, {8.5, true}}, 10, [][2]int64{{0, 1000}, {4000, 6000}, {8500, 10000}}, false},
		{"from before the slot", []look{{-5, true}, {-4, false}, {2, true}}, 10, [][2]int64{{2000, 10000}}, false},
		{"never seen before", []look{{-4, false}, {5, true}}, 10, [][2]int64{{5000, 10000}}, false},
		{"until the reading", []look{{2, true}, {3, false}, {9, false}}, 10, [][2]int64{{0, 2000}}, false},
		{"all the time", []look{{-1, true}, {0, false}, {9, false}}, 10.2, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b blindness
			for _, l := range c.looks {
				if l.good {
					b.looked(at(l.at))
				} else {
					b.failed(at(l.at))
				}
			}
			b.looked(at(c.read))
			out := &wire.Batch{SlotMs: 10_000}
			b.observe(source.Slot{Start: start, Length: 10 * time.Second}, at(c.read), out)
			var got [][2]int64
			for _, o := range out.Observed {
				got = append(got, [2]int64{o.FromMs, o.ToMs})
			}
			if diff := cmp.Diff(c.want, got); diff != "" || out.Unobserved != c.unobserved {
				t.Errorf("unobserved %v (-want +got)\n%s", out.Unobserved, diff)
			}
		})
	}
}

// R16: a movement that was told in a batch that nobody spooled is told again.
func TestR16EnergyOfABatchThatWasNotSpooled(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(plain(energy(1e6)))
	r.gpu(plain(energy(2e6)))
	lost, err := r.b.Batch(r.slot, Reading{At: r.slot.End(), Complete: true, GPUs: []GPU{plain(energy(3e6))}})
	if err != nil || lost.Gpus[0].GetEnergyMj() != 1e6 {
		t.Fatalf("got %v, %v", lost, err)
	}
	r.slot = r.slot.Next()
	if g := r.gpu(plain(energy(4e6))); g.GetEnergyMj() != 2e6 || g.GetEnergySpanMs() != 20_000 {
		t.Errorf("%d mJ over %d ms, want both slots' 2000000 over 20000", g.GetEnergyMj(), g.GetEnergySpanMs())
	}
}

// R9: a GPU that broke again after its reset, in one slot, stays flagged.
func TestR9AnXIDAfterAReset(t *testing.T) {
	r := newRig(t, nil)
	r.gpu(plain(energy(9e6)))
	out, err := r.b.Batch(r.slot, Reading{
		At: r.slot.End(), Complete: true, GPUs: []GPU{plain(energy(1e6))},
		XIDs: []XID{{At: r.slot.Start.Add(8 * time.Second), UUID: plain().UUID, Part: gpustate.Whole, Code: 95}},
	})
	if err != nil || !out.Gpus[0].Unhealthy || !out.Gpus[0].EnergyReset {
		t.Errorf("got %v, %v; want a board that was reset and is flagged", out, err)
	}
}
