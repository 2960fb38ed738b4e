package wire_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

// TestRevOrder lists batches of one slot from the weakest to the strongest (R1).
func TestRevOrder(t *testing.T) {
	const ok, failed = wire.Attribution_ATTRIBUTION_OK, wire.Attribution_ATTRIBUTION_FAILED
	part := func(ms int64) []*wire.Interval { return []*wire.Interval{{FromMs: 0, ToMs: ms}} }
	order := []*wire.Batch{
		{SlotMs: 3_600_000, BootMs: math.MaxInt64, Fill: true}, // R18: below whatever anybody saw, or didn't
		{SlotMs: 3_600_000, BootMs: 0, Attribution: failed, Unobserved: true},
		{SlotMs: 3_600_000, BootMs: 2000, Attribution: failed, Unobserved: true},
		{SlotMs: 3_600_000, BootMs: 1, Attribution: failed, Observed: part(1)},
		{SlotMs: 3_600_000, BootMs: 2, Attribution: failed},
		{SlotMs: 3_600_000, BootMs: math.MaxInt64, Attribution: failed},
		{SlotMs: 3_600_000, BootMs: 0, Attribution: ok, Unobserved: true},
		{SlotMs: 3_600_000, BootMs: 1 << 40, Attribution: ok, Observed: part(2999)},
		{SlotMs: 3_600_000, BootMs: 1, Attribution: ok, Observed: []*wire.Interval{{FromMs: 0, ToMs: 1000}, {FromMs: 5000, ToMs: 7000}}},
		{SlotMs: 3_600_000, BootMs: 1, Attribution: ok},
		{SlotMs: 3_600_000, BootMs: 2},
	}
	for i := 1; i < len(order); i++ {
		if lo, hi := wire.Rev(order[i-1]), wire.Rev(order[i]); lo >= hi {
			t.Errorf("rev %d of batch %d is not below %d of batch %d", lo, i-1, hi, i)
		}
	}
}

func TestRankCompare(t *testing.T) {
	order := []wire.Rank{
		{Rev: 1, Collector: "z", BootMS: 9, Seq: 9, Hash: [32]byte{9}},
		{Rev: 2, Collector: "a", BootMS: 9, Seq: 9, Hash: [32]byte{9}},
		{Rev: 2, Collector: "b", BootMS: 1, Seq: 9, Hash: [32]byte{9}},
		{Rev: 2, Collector: "b", BootMS: 2, Seq: 1, Hash: [32]byte{9}},
		{Rev: 2, Collector: "b", BootMS: 2, Seq: 2, Hash: [32]byte{1}},
		{Rev: 2, Collector: "b", BootMS: 2, Seq: 2, Hash: [32]byte{2}},
	}
	got := slices.Clone(order)
	slices.Reverse(got)
	slices.SortFunc(got, wire.Rank.Compare)
	if diff := cmp.Diff(order, got); diff != "" {
		t.Errorf("order differs (-want +got):\n%s", diff)
	}
	if c := order[0].Compare(order[0]); c != 0 {
		t.Errorf("a rank compares to itself as %d", c)
	}
}

func TestObserved(t *testing.T) {
	for name, c := range map[string]struct {
		batch *wire.Batch
		want  int64
	}{
		"no list is all":       {&wire.Batch{SlotMs: 10_000}, 10_000},
		"parts":                {&wire.Batch{SlotMs: 10_000, Observed: []*wire.Interval{{FromMs: 1, ToMs: 3}, {FromMs: 9000, ToMs: 10_000}}}, 1002},
		"nothing":              {&wire.Batch{SlotMs: 10_000, Unobserved: true}, 0},
		"nothing wins a list":  {&wire.Batch{SlotMs: 10_000, Unobserved: true, Observed: []*wire.Interval{{FromMs: 1, ToMs: 3}}}, 0},
		"an hour's whole slot": {&wire.Batch{SlotMs: 3_600_000}, 3_600_000},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wire.ObservedMS(c.batch); got != c.want {
				t.Errorf("ObservedMS = %d, want %d", got, c.want)
			}
		})
	}
}
