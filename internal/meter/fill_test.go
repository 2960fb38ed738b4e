package meter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

const (
	fillFrom = 1_772_323_200_000 // 2026-03-01T00:00:00Z
	fillSlot = 10_000
)

// seen is a slot of node n in which holder had the board; empty: nobody.
func seen(slot int64, holder string) *wire.Batch {
	b := &wire.Batch{
		Format: wire.Format, Cluster: "k", Node: "n", Collector: "c", BootMs: 1, Seq: uint64(slot), SlotMs: fillSlot, SlotStartMs: fillFrom + slot*fillSlot,
		Gpus: []*wire.Gpu{{Uuid: "g", Slices: 7, Leaves: []*wire.Leaf{{Id: "gpu", Slices: 7}}}},
	}
	if holder != "" {
		b.Gpus[0].Holds = []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Tenant: holder}}}
	}
	return b
}

// filled is what records say of a slot: holder had the board for a part of it.
func filled(slot int64, holder string, fromMS, toMS int64) *wire.Batch {
	b := seen(slot, holder)
	b.Collector, b.BootMs, b.Fill, b.Origin, b.Enumeration = "import/k/records", 1<<40, true, wire.Origin_ORIGIN_IMPORT, wire.Enumeration_ENUMERATION_PARTIAL
	b.Gpus[0].Holds[0].FromMs, b.Gpus[0].Holds[0].ToMs = &fromMS, &toMS
	return b
}

// TestFills is R18 on a board of 7 slices, slots of 10 s: what records say counts
// only where nobody said anything.
func TestFills(t *testing.T) {
	const s = 7 * 1000 // slice-ms of a second
	elsewhere := filled(3, "b", 0, fillSlot)
	elsewhere.Node = "m"
	smaller, larger := filled(0, "b", 0, fillSlot), filled(3, "b", 0, fillSlot)
	smaller.Gpus[0].Slices, smaller.Gpus[0].Leaves[0].Slices = 3, 3
	larger.Gpus[0].Leaves = append(larger.Gpus[0].Leaves, &wire.Leaf{Id: "other", Slices: 1})
	corrected := filled(3, "b", 0, 2000)
	corrected.BootMs++
	blind := seen(3, "")
	blind.BootMs, blind.Attribution, blind.Unobserved = 0, wire.Attribution_ATTRIBUTION_FAILED, true
	for name, c := range map[string]struct {
		batches []*wire.Batch
		want    map[string]usage // of the hour, by tenant
	}{
		"what records hold is unproven, the rest stays unobserved": {
			[]*wire.Batch{seen(0, "a"), filled(3, "b", 2000, 9000), seen(7, "a")},
			map[string]usage{"a": {unproven: 20 * s}, "b": {unproven: 7 * s}, "": {unobserved: 53 * s}},
		},
		"whoever looked replaces it, late as he is": {
			[]*wire.Batch{seen(0, "a"), filled(3, "b", 0, fillSlot), seen(7, "a"), seen(3, "")},
			map[string]usage{"a": {unproven: 20 * s}, "": {unobserved: 50 * s, free: 10 * s}},
		},
		"and so does who says that he saw nothing": {
			[]*wire.Batch{seen(0, "a"), filled(3, "b", 0, fillSlot), seen(7, "a"), blind},
			map[string]usage{"a": {unproven: 20 * s}, "": {unobserved: 60 * s}},
		},
		"a later run corrects": {
			[]*wire.Batch{seen(0, "a"), corrected, filled(3, "b", 0, fillSlot), seen(7, "a")},
			map[string]usage{"a": {unproven: 20 * s}, "b": {unproven: 2 * s}, "": {unobserved: 58 * s}},
		},
		"what is inferred from both sides stays": {
			[]*wire.Batch{seen(0, "a"), filled(1, "b", 0, fillSlot), filled(2, "a", 0, fillSlot), seen(3, "a")},
			map[string]usage{"a": {unproven: 40 * s}},
		},
		"between different holders nothing is inferred, and records count": {
			[]*wire.Batch{seen(0, "a"), filled(1, "b", 0, fillSlot), seen(2, "")},
			map[string]usage{"a": {unproven: 10 * s}, "b": {unproven: 10 * s}, "": {free: 10 * s}},
		},
		"records are no side of a gap": {
			[]*wire.Batch{seen(0, "a"), filled(5, "a", 0, fillSlot), seen(8, "")},
			map[string]usage{"a": {unproven: 20 * s}, "": {unobserved: 60 * s, free: 10 * s}},
		},
		"nor do they place a GPU on a node": {
			[]*wire.Batch{seen(0, "a"), elsewhere, seen(7, "a")},
			map[string]usage{"a": {unproven: 20 * s}, "": {unobserved: 60 * s}},
		},
		"nor open its inventory, nor say what it has": {
			[]*wire.Batch{smaller, seen(1, "a")},
			map[string]usage{"a": {unproven: 10 * s}},
		},
		"leaves beyond the board count for nothing": {
			[]*wire.Batch{seen(0, "a"), larger, seen(7, "a")},
			map[string]usage{"a": {unproven: 20 * s}, "": {unobserved: 60 * s}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := computeCluster(t, c.batches)
			by := map[string]usage{}
			for key, u := range got {
				by[key.tenant] = u
			}
			if diff := cmp.Diff(c.want, by, cmp.AllowUnexported(usage{})); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFillsOnlyMoveUnobservedTime: over random clusters, fills of slots with and
// without a batch, by nodes that have the GPU and by others, move time from
// unobserved to unproven, and touch nothing else.
func TestFillsOnlyMoveUnobservedTime(t *testing.T) {
	moved := int64(0)
	for seed := range uint64(400) {
		batches := randomBatches(seed)
		before, _ := computeCluster(t, batches)
		after, hours := computeCluster(t, append(batches, randomFills(seed, batches)...))
		got := map[usageKey]usage{}
		for key, u := range after {
			if key.tenant != "records" {
				got[key] = u
				continue
			}
			if u.unproven <= 0 || u != (usage{unproven: u.unproven}) {
				t.Fatalf("seed %d: records have %+v, want unproven time alone", seed, u)
			}
			moved += u.unproven
		}
		for key, u := range after { // give it back
			if key.tenant == "records" {
				at := usageKey{key.hour, key.gpu, ""}
				platform := got[at]
				platform.unobserved += u.unproven
				got[at] = platform
			}
		}
		if diff := cmp.Diff(before, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
			t.Fatalf("seed %d: fills moved more than unobserved time (-without +with):\n%s", seed, diff)
		}
		for _, h := range hours {
			sum := h.Free + h.Stranded + h.Unhealthy + h.Unobserved
			for _, o := range h.Owners {
				sum += o.Active + o.Idle + o.Unproven
			}
			if sum != int64(h.Slices)*h.PresentMS {
				t.Fatalf("seed %d: buckets of %s sum to %d, want %d slices × %d ms", seed, h.GPU, sum, h.Slices, h.PresentMS)
			}
		}
	}
	if moved == 0 {
		t.Error("no fill ever counted")
	}
	t.Logf("%d slice-ms filled", moved)
}

// randomFills say of slots up to the newest that tenant "records" had a board of
// the cluster, on one of its nodes.
func randomFills(seed uint64, batches []*wire.Batch) (fills []*wire.Batch) {
	r := rand.New(rand.NewPCG(seed, 18))
	first, last := batches[0].SlotStartMs, batches[0].SlotStartMs
	for _, b := range batches {
		first, last = min(first, b.SlotStartMs), max(last, b.SlotStartMs)
	}
	slotMS := batches[0].SlotMs
	for i := range 20 {
		like := batches[r.IntN(len(batches))]
		if len(like.Gpus) == 0 {
			continue
		}
		g := like.Gpus[r.IntN(len(like.Gpus))]
		slots := min((last-first)/slotMS+1, 20)
		from, to := r.Int64N(slotMS/2), slotMS/2+r.Int64N(slotMS/2)+1
		b := &wire.Batch{
			Format: wire.Format, Cluster: like.Cluster, Node: batches[r.IntN(len(batches))].Node, Collector: "import/k/records", BootMs: 1 << 40, Seq: uint64(i),
			SlotMs: slotMS, SlotStartMs: first + r.Int64N(slots)*slotMS,
			Fill: true, Origin: wire.Origin_ORIGIN_IMPORT, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
			Gpus: []*wire.Gpu{{Uuid: g.Uuid, Model: g.Model, Slices: max(g.Slices, 1), Leaves: []*wire.Leaf{{Id: "gpu", Slices: max(g.Slices, 1)}}}},
		}
		if g.Slices > 1000 {
			b.Gpus[0].Slices, b.Gpus[0].Leaves[0].Slices = 7, 7
		}
		b.Gpus[0].Holds = []*wire.Hold{{Leaf: "gpu", FromMs: &from, ToMs: &to, Owner: &wire.Owner{Tenant: "records", Job: fmt.Sprint(i)}}}
		if err := wire.Validate(b); err != nil {
			panic(err)
		}
		fills = append(fills, b)
	}
	return fills
}
