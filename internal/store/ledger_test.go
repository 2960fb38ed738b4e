package store_test

import (
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
)

var hour = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// usageHour is one GPU's row: two owners on a 7-slice board. The buckets sum
// to 7 × 3,600,000 when free is 10,000,000.
func usageHour(gpu string, free, version uint64) proto.Input {
	words := func(values ...string) *proto.ColArr[string] {
		a := proto.NewArray(new(proto.ColStr).LowCardinality())
		a.Append(values)
		return a
	}
	numbers := func(values ...uint64) *proto.ColArr[uint64] {
		a := proto.NewArrUInt64()
		a.Append(values)
		return a
	}
	one := func(value string) *proto.ColLowCardinality[string] {
		c := new(proto.ColStr).LowCardinality()
		c.Append(value)
		return c
	}
	start := proto.ColDateTime{Location: time.UTC}
	start.Append(hour)
	slices, energy := proto.NewArrUInt16(), proto.NewArrInt64()
	slices.Append([]uint16{3, 4})
	energy.Append([]int64{500, 600})
	workload := proto.NewArray(new(proto.ColStr))
	workload.Append([]string{"train", "serve"})
	return proto.Input{
		{Name: "cluster", Data: one("c")},
		{Name: "hour", Data: start},
		{Name: "gpu", Data: one(gpu)},
		{Name: "node", Data: one("n1")},
		{Name: "model", Data: one("H100")},
		{Name: "slices", Data: proto.ColUInt16{7}},
		{Name: "present_ms", Data: proto.ColUInt32{3_600_000}},
		{Name: "version", Data: proto.ColUInt64{version}},
		{Name: "free", Data: proto.ColUInt64{free}},
		{Name: "stranded", Data: proto.ColUInt64{200_000}},
		{Name: "platform_energy_mj", Data: proto.ColInt64{70}},
		{Name: "unattributed_mj", Data: proto.ColInt64{9}},
		{Name: "leaf", Data: words("l1", "l2")},
		{Name: "profile", Data: words("3g.40gb", "4g.40gb")},
		{Name: "profile_slices", Data: slices},
		{Name: "tenant", Data: words("red", "blue")},
		{Name: "project", Data: words("p", "q")},
		{Name: "user", Data: words("u", "v")},
		{Name: "workload", Data: workload},
		{Name: "active", Data: numbers(10_000_000, 0)},
		{Name: "idle", Data: numbers(0, 4_000_000)},
		{Name: "unproven", Data: numbers(0, 1_000_000)},
		{Name: "inferred", Data: numbers(0, 300_000)},
		{Name: "work", Data: numbers(77, 0)},
		{Name: "energy_mj", Data: energy},
	}
}

func TestUsageRowWhoseBucketsDoNotSumIsRefused(t *testing.T) {
	db := storetest.Open(t)
	err := db.Insert(t.Context(), "usage_hourly", usageHour("g1", 9_999_999, 1))
	if code, _ := store.Code(err); code != store.CodeConstraintViolation || store.Retryable(err) {
		t.Errorf("insert: %v, want code %d, not retryable", err, store.CodeConstraintViolation)
	}
	var rows uint64
	if err := db.QueryRow(t.Context(), "SELECT count() FROM usage_hourly").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("rows afterwards: %d, %v; want 0", rows, err)
	}
}

type usageRow struct {
	GPU          string `ch:"gpu"`
	Kind         string `ch:"kind"`
	Leaf         string `ch:"leaf"`
	Profile      string `ch:"profile"`
	Slices       uint16 `ch:"profile_slices"`
	Tenant       string `ch:"tenant"`
	Project      string `ch:"project"`
	User         string `ch:"user"`
	Workload     string `ch:"workload"`
	Active       uint64 `ch:"active_slice_ms"`
	Idle         uint64 `ch:"idle_slice_ms"`
	Unproven     uint64 `ch:"unproven_slice_ms"`
	Inferred     uint64 `ch:"inferred_slice_ms"`
	Free         uint64 `ch:"free_slice_ms"`
	Stranded     uint64 `ch:"stranded_slice_ms"`
	EnergyMJ     int64  `ch:"energy_mj"`
	Work         uint64 `ch:"work"`
	Unhealthy    uint64 `ch:"unhealthy_slice_ms"`
	UnobservedMS uint64 `ch:"unobserved_slice_ms"`
}

const selectUsage = `SELECT gpu, kind, leaf, profile, profile_slices, tenant, project, user, workload, active_slice_ms, idle_slice_ms,
	unproven_slice_ms, inferred_slice_ms, free_slice_ms, stranded_slice_ms, energy_mj, work, unhealthy_slice_ms, unobserved_slice_ms
	FROM usage WHERE hour = {hour:DateTime} ORDER BY gpu, kind, leaf`

func TestUsageViewUnfoldsTheNewestRow(t *testing.T) {
	db := storetest.Open(t)
	stale := usageHour("g1", 10_000_000, 1)
	for i := range stale {
		if stale[i].Name == "workload" {
			column := proto.NewArray(new(proto.ColStr))
			column.Append([]string{"old", "old"})
			stale[i].Data = column
		}
	}
	for _, in := range []proto.Input{usageHour("g1", 10_000_000, 2), stale} {
		if err := db.Insert(t.Context(), "usage_hourly", in); err != nil {
			t.Fatal(err)
		}
	}
	want := []usageRow{
		{
			GPU: "g1", Kind: "owner", Leaf: "l1", Profile: "3g.40gb", Slices: 3, Tenant: "red", Project: "p", User: "u",
			Workload: "train",
			Active:   10_000_000, EnergyMJ: 500, Work: 77,
		},
		{
			GPU: "g1", Kind: "owner", Leaf: "l2", Profile: "4g.40gb", Slices: 4, Tenant: "blue", Project: "q", User: "v",
			Workload: "serve",
			Idle:     4_000_000, Unproven: 1_000_000, Inferred: 300_000, EnergyMJ: 600,
		},
		{GPU: "g1", Kind: "platform", Free: 10_000_000, Stranded: 200_000, EnergyMJ: 70},
		{GPU: "g1", Kind: "unattributed", Tenant: "(unattributed)", EnergyMJ: 9},
	}
	var got []usageRow
	if err := db.Select(t.Context(), &got, selectUsage, store.Named("hour", hour)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// holdRows is an hour of 10 s slots of one node's GPUs, as ingest would send it.
func holdRows(rows int) proto.Input {
	var (
		cluster, node, gpu, model = new(proto.ColStr).LowCardinality(), new(proto.ColStr).LowCardinality(), new(
			proto.ColStr).LowCardinality(), new(proto.ColStr).LowCardinality()
		slot                     = proto.ColDateTime{Location: time.UTC}
		slotMS, head             proto.ColUInt32
		batch, owner, held, work proto.ColUInt64
		bucket                   proto.ColInt8
		energy                   proto.ColInt64
		slices                   proto.ColUInt16
		gpus                     = []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"}
	)
	for i := range rows {
		cluster.Append("c")
		node.Append("node-1")
		gpu.Append(gpus[i%8])
		model.Append("NVIDIA H100 80GB HBM3")
		slot.Append(hour.Add(time.Duration(i/8%360) * 10 * time.Second))
		slotMS.Append(10_000)
		head.Append(1<<16 | 1)
		batch.Append(uint64(i / 8))
		owner.Append(uint64(i % 5))
		held.Append(10_000)
		work.Append(uint64(i%100) * 1_000_000)
		bucket.Append(int8(1 + i%4))
		energy.Append(int64(4_000_000 + i%1000))
		slices.Append(1)
	}
	return proto.Input{
		{Name: "cluster", Data: cluster},
		{Name: "node", Data: node},
		{Name: "gpu", Data: gpu},
		{Name: "model", Data: model},
		{Name: "slot", Data: slot},
		{Name: "slot_ms", Data: slotMS},
		{Name: "head", Data: head},
		{Name: "tail", Data: head},
		{Name: "batch", Data: batch},
		{Name: "owner", Data: owner},
		{Name: "slice_ms", Data: held},
		{Name: "work", Data: work},
		{Name: "bucket", Data: bucket},
		{Name: "energy_mj", Data: energy},
		{Name: "slices", Data: slices},
	}
}

func BenchmarkInsertHolds(b *testing.B) {
	db := storetest.Open(b)
	const rows = 100_000
	in := holdRows(rows)
	for b.Loop() {
		if err := db.Insert(b.Context(), "holds", in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
