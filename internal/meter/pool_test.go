package meter_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// poolHour is an hour of a pool of 16 GPUs in a cluster of one-hour slots:
// account a has 2.5 GPUs for half of it, account b 8 for all of it.
func poolHour(change func(*wire.Batch)) []*wire.Batch {
	half := int64(1_800_000)
	b := &wire.Batch{
		Format: wire.Format, Cluster: "k", Node: "k", Collector: "c", SlotStartMs: 1_772_323_200_000, SlotMs: 3_600_000,
		Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
		Gpus: []*wire.Gpu{{
			Uuid: "k/k", Slices: 16_000, Pool: true,
			Leaves: []*wire.Leaf{{Id: "1", Slices: 2500, ToMs: &half}, {Id: "2", Slices: 8000}},
			Holds: []*wire.Hold{
				{Leaf: "1", Owner: &wire.Owner{Job: "1", Account: "a"}},
				{Leaf: "2", Owner: &wire.Owner{Job: "2", Account: "b"}},
			},
		}},
	}
	if change != nil {
		change(b)
	}
	return []*wire.Batch{b}
}

func TestPools(t *testing.T) {
	const ms = 3_600_000
	held := map[string]int64{"a": 2500 * ms / 2, "b": 8000 * ms}
	rest := int64(16_000*ms) - held["a"] - held["b"]
	with := func(platform usage) map[usageKey]usage {
		key := func(tenant string) usageKey { return usageKey{"2026-03-01T00:00:00Z", "k/k", tenant} }
		return map[usageKey]usage{key("a"): {unproven: held["a"]}, key("b"): {unproven: held["b"]}, key(""): platform}
	}
	only := func(platform usage) map[usageKey]usage {
		return map[usageKey]usage{{"2026-03-01T00:00:00Z", "k/k", ""}: platform}
	}
	for name, c := range map[string]struct {
		change func(*wire.Batch)
		want   map[usageKey]usage
	}{
		"what nobody was given is free": {nil, with(usage{free: rest})},
		"of an unknown capacity it is unobserved": {
			func(b *wire.Batch) { b.Gpus[0].UnknownCapacity = true }, with(usage{unobserved: rest}),
		},
		"a pool's evidence says nothing": {
			func(b *wire.Batch) { b.Gpus[0].Leaves[1].SmActive = ptr(0.9) }, with(usage{free: rest}),
		},
		"an allocation without an owner is free": {
			func(b *wire.Batch) { b.Gpus[0].Leaves = append(b.Gpus[0].Leaves, &wire.Leaf{Id: "3", Slices: 100}) }, with(usage{free: rest}),
		},
		"allocations beyond the pool": {
			func(b *wire.Batch) { b.Gpus[0].Slices = 10_499 }, only(usage{unobserved: 10_499 * ms}),
		},
		"allocations one after the other": {
			func(b *wire.Batch) {
				from := *b.Gpus[0].Leaves[0].ToMs
				b.Gpus[0].Slices = 10_500
				b.Gpus[0].Leaves = append(b.Gpus[0].Leaves, &wire.Leaf{Id: "3", Slices: 2500, FromMs: &from})
			}, with(usage{free: 10_500*ms - held["a"] - held["b"]}),
		},
		"a lost pool": {func(b *wire.Batch) { b.Gpus[0].Lost = true }, only(usage{unhealthy: 16_000 * ms})},
		"owners could not be read": {
			func(b *wire.Batch) { b.Attribution = wire.Attribution_ATTRIBUTION_FAILED }, only(usage{unobserved: 16_000 * ms}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, hours := computeCluster(t, poolHour(c.change))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
			if per := hours[0].Kind.GPUSlices(hours[0].Slices); per != meter.PoolGPUSlices {
				t.Errorf("a GPU of the pool has %d slices, want %d", per, meter.PoolGPUSlices)
			}
		})
	}
}

// TestPoolAfterItsLastRecord: a pool stays a day, as every GPU does (R2); one
// of unknown capacity is there only where it is listed.
func TestPoolAfterItsLastRecord(t *testing.T) {
	for name, c := range map[string]struct {
		unknown bool
		want    []int64 // slices of the rows of the first, second and third hour
	}{
		"known":   {false, []int64{16_000, 16_000, 16_000}},
		"unknown": {true, []int64{16_000, 12_000}},
	} {
		t.Run(name, func(t *testing.T) {
			batches := poolHour(func(b *wire.Batch) { b.Gpus[0].UnknownCapacity = c.unknown })
			last := poolHour(func(b *wire.Batch) {
				b.SlotStartMs += 2 * 3_600_000
				b.Gpus[0].UnknownCapacity = c.unknown
				if c.unknown {
					b.Gpus[0].Slices = 12_000
				}
			})
			_, hours := computeCluster(t, append(batches, last...))
			var got []int64
			for _, h := range hours {
				got = append(got, int64(h.Slices))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("slices of the rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLargestPool: as many allocations as a batch may list, of as many GPUs as
// a pool may have, are settled exactly, and not in quadratic time.
func TestLargestPool(t *testing.T) {
	const n, all = wire.MaxLeaves, wire.MaxPoolSlices
	b := poolHour(func(b *wire.Batch) {
		g := b.Gpus[0]
		g.Slices, g.Leaves, g.Holds = all, nil, nil
		for i := range n {
			id := fmt.Sprint(i)
			g.Leaves = append(g.Leaves, &wire.Leaf{Id: id, Slices: all / n})
			g.Holds = append(g.Holds, &wire.Hold{Leaf: id, Owner: &wire.Owner{Job: id, Account: "a"}})
		}
	})
	if err := wire.Validate(b[0]); err != nil {
		t.Fatal(err)
	}
	got, _ := computeCluster(t, b)
	want := map[usageKey]usage{
		{"2026-03-01T00:00:00Z", "k/k", "a"}: {unproven: all / n * n * 3_600_000},
		{"2026-03-01T00:00:00Z", "k/k", ""}:  {free: all % n * 3_600_000},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
		t.Errorf("usage differs (-want +got):\n%s", diff)
	}
}
