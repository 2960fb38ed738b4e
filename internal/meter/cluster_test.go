package meter_test

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

func readBatches(t *testing.T, path string) []*wire.Batch {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*wire.Batch
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		b, err := wire.ParseJSONLine(lines.Bytes())
		if err != nil {
			t.Fatalf("%s line %d: %v", path, len(out)+1, err)
		}
		out = append(out, b)
	}
	return out
}

// usage is a tenant's line of one GPU-hour: seven buckets and energy.
type usage struct {
	active, idle, unproven, free, stranded, unhealthy, unobserved, energy int64
}

type usageKey struct{ hour, gpu, tenant string }

func hourText(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func tenantOf(o meter.Owner) string { return cmp.Or(o.Tenant, o.Namespace, o.Account, "unassigned") }

// computeCluster takes batches of one cluster the whole way: winners, rows,
// hours. It is what the ledger does, without tables.
func computeCluster(t *testing.T, batches []*wire.Batch) (map[usageKey]usage, []meter.GPUHour) {
	t.Helper()
	return computeRetired(t, batches, nil)
}

// computeRetired is computeCluster where people closed the inventory of GPUs.
func computeRetired(t *testing.T, batches []*wire.Batch, retirements map[string][]int64) (map[usageKey]usage, []meter.GPUHour) {
	t.Helper()
	in := newClusterInput(t, batches)
	in.Retirements = retirements
	first, last := slices.MinFunc(batches, byStart).SlotStartMs, in.WatermarkMS
	inv := meter.NewInventory(nil)
	got := map[usageKey]usage{}
	var all []meter.GPUHour
	for start := first - first%meter.HourMS; start < last; start += meter.HourMS {
		in.StartMS = start
		res, err := meter.Hour(in.around(start), inv)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range res.GPUs {
			in.fold(got, start, g)
		}
		all = append(all, res.GPUs...)
	}
	return got, all
}

func byStart(a, b *wire.Batch) int { return cmp.Compare(a.SlotStartMs, b.SlotStartMs) }

type clusterInput struct {
	meter.HourInput
	owners map[uint64]meter.Owner
}

func newClusterInput(t *testing.T, batches []*wire.Batch) clusterInput {
	t.Helper()
	in := clusterInput{owners: map[uint64]meter.Owner{}}
	in.SlotMS = batches[0].SlotMs
	in.Nodes, in.GPUs = map[string][]meter.NodeSlot{}, map[string]map[string][]meter.Record{}
	ids, leaves := meter.NewIdentities(), map[uint64]int{}
	for _, b := range winners(t, batches) {
		in.WatermarkMS = max(in.WatermarkMS, b.SlotStartMs+b.SlotMs)
		slot := meter.NodeSlot{
			StartMS: b.SlotStartMs, Nothing: b.Unobserved,
			Complete: wire.EnumerationComplete(b), AttributionOK: wire.AttributionOK(b), Fill: b.Fill,
		}
		for _, o := range b.Observed {
			slot.Observed = append(slot.Observed, o.FromMs, o.ToMs)
		}
		in.Nodes[b.Node] = append(in.Nodes[b.Node], slot)
		for _, g := range meter.Classify(b, ids) {
			if in.GPUs[g.UUID] == nil {
				in.GPUs[g.UUID] = map[string][]meter.Record{}
			}
			in.GPUs[g.UUID][b.Node] = append(in.GPUs[g.UUID][b.Node], meter.Record{StartMS: b.SlotStartMs, Slices: g.Slices, Kind: g.Kind, Model: g.Model, Rows: g.Rows})
		}
	}
	ids.Leaves(func(l meter.Leaf, h uint64) { leaves[h] = l.Slices })
	ids.Owners(func(o meter.Owner, h uint64) { in.owners[h] = o })
	in.LeafSlices = func(h uint64) int { return leaves[h] }
	in.OwnerID = func(h uint64) string { return in.owners[h].ID() }
	return in
}

func winners(t *testing.T, batches []*wire.Batch) []*wire.Batch {
	t.Helper()
	best := map[string]*wire.Batch{}
	rank := map[string]wire.Rank{}
	for _, b := range batches {
		data, err := wire.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		r := wire.Rank{Rev: wire.Rev(b), Collector: b.Collector, BootMS: b.BootMs, Seq: b.Seq, Hash: wire.Hash(b, data)}
		key := fmt.Sprint(b.Node, "/", b.SlotStartMs)
		if best[key] == nil || r.Compare(rank[key]) > 0 {
			best[key], rank[key] = b, r
		}
	}
	var out []*wire.Batch
	for _, b := range best {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b *wire.Batch) int { return cmp.Or(byStart(a, b), cmp.Compare(a.Node, b.Node)) })
	return out
}

// around keeps what an hour depends on, as the ledger reads it.
func (in clusterInput) around(start int64) meter.HourInput {
	out := in.HourInput
	lo, hi := start-meter.GapMaxMS, start+meter.HourMS+meter.GapMaxMS
	near := func(at int64) bool { return at+in.SlotMS > lo && at < hi }
	out.Nodes, out.GPUs = map[string][]meter.NodeSlot{}, map[string]map[string][]meter.Record{}
	for n, slots := range in.Nodes {
		for _, s := range slots {
			if near(s.StartMS) {
				out.Nodes[n] = append(out.Nodes[n], s)
			}
		}
	}
	for g, nodes := range in.GPUs {
		for n, records := range nodes {
			for _, r := range records {
				if near(r.StartMS) {
					if out.GPUs[g] == nil {
						out.GPUs[g] = map[string][]meter.Record{}
					}
					out.GPUs[g][n] = append(out.GPUs[g][n], r)
				}
			}
		}
	}
	return out
}

func (in clusterInput) fold(into map[usageKey]usage, start int64, g meter.GPUHour) {
	at := func(tenant string, change func(*usage)) {
		key := usageKey{hourText(start), g.GPU, tenant}
		u := into[key]
		change(&u)
		if u != (usage{}) {
			into[key] = u
		}
	}
	at("", func(u *usage) {
		u.free += g.Free
		u.stranded += g.Stranded
		u.unhealthy += g.Unhealthy
		u.unobserved += g.Unobserved
		u.energy += g.PlatformEnergyMJ
	})
	at("(unattributed)", func(u *usage) { u.energy += g.UnattributedMJ })
	for _, o := range g.Owners {
		at(tenantOf(in.owners[o.Owner]), func(u *usage) {
			u.active += o.Active
			u.idle += o.Idle
			u.unproven += o.Unproven
			u.energy += o.EnergyMJ
		})
	}
}
