package wire_test

import (
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/wire"
)

// richBatch has every field of the contract set at least once.
func richBatch() *wire.Batch {
	return &wire.Batch{
		Cluster: "k", Node: "n1", SlotStartMs: 1_772_323_200_000, SlotMs: 10_000,
		Collector: "c1", BootMs: 1_772_000_000_000, Seq: 42,
		Attribution: wire.Attribution_ATTRIBUTION_OK, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
		Observed: []*wire.Interval{{FromMs: 0, ToMs: 3000}, {FromMs: 7000, ToMs: 10_000}},
		Gpus:     []*wire.Gpu{richWhole(), richMIG(), {Uuid: "GPU-lost", Lost: true, Index: 2}, richPool()},
		Origin:   wire.Origin_ORIGIN_REPLAY, WindowFromMs: 1_772_323_200_000, WindowToMs: 1_772_326_800_000, ClusterSlotMs: 10_000,
		Counters:    &wire.Counters{Sampled: 43, Spooled: 42, Dropped: map[string]uint64{"full": 1, "torn": 0}, SpoolDropped: 2},
		Predecessor: &wire.Predecessor{BootMs: 1_771_000_000_000, LastSeq: 7},
		Gaps:        []*wire.SeqGap{{FromSeq: 8, ToSeq: 9, Reason: "spool_full", BootMs: 1_771_000_000_000}},
		Events:      []*wire.Event{{AtMs: 1500, Gpu: "GPU-lost", Leaf: "gpu", Kind: "xid", Code: 79, Detail: "fallen off the bus"}},
	}
}

func richWhole() *wire.Gpu {
	return &wire.Gpu{
		Uuid: "GPU-whole", Model: "NVIDIA H100 80GB HBM3", Slices: 7, Unhealthy: true,
		PowerWatts: proto.Float64(412.5), IdleWatts: proto.Float64(80),
		EnergyMj: proto.Int64(4_125_000), EnergySpanMs: proto.Int64(10_013), EnergyReset: true,
		Leaves: []*wire.Leaf{{
			Id: "gpu", Slices: 7, GpuUtil: proto.Float64(0), SmActive: proto.Float64(0.25), Replicas: 4,
			MetricFields: []uint32{1005}, MetricValues: []float64{0.5},
		}},
		Holds: []*wire.Hold{
			{Leaf: "gpu", ToMs: proto.Int64(3000), Owner: &wire.Owner{Namespace: "ml", Pod: "train-0", Uid: "6f1c", Container: "main"}},
			{Leaf: "gpu", Owner: &wire.Owner{Job: "1234", User: "eve", Account: "physics"}},
			{Leaf: "gpu", Owner: &wire.Owner{Tenant: "acme", Project: "search"}},
		},
		MetricFields: []uint32{150, 252}, MetricValues: []float64{54, 70_123},
	}
}

func richMIG() *wire.Gpu {
	return &wire.Gpu{
		Uuid: "GPU-mig", Model: "NVIDIA A30", Slices: 4, Mig: true, Index: 1,
		Leaves: []*wire.Leaf{
			{Id: "gi1", Slices: 2, Profile: "2g.12gb", Gi: proto.Uint32(0), MigUuid: "MIG-1", ToMs: proto.Int64(7000), GrEngineActive: proto.Float64(0.004)},
			{Id: "gi2/0", Slices: 1, Profile: "1c.2g.12gb", Gi: proto.Uint32(2), Ci: proto.Uint32(0), Unhealthy: true},
			{Id: "gi0", Slices: 1, Profile: "1g.6gb", Gi: proto.Uint32(0), FromMs: proto.Int64(7000)},
		},
		Holds: []*wire.Hold{{Leaf: "gi0", FromMs: proto.Int64(7500), ToMs: proto.Int64(10_000), Owner: &wire.Owner{}}},
	}
}

func richPool() *wire.Gpu {
	return &wire.Gpu{
		Uuid: "k/n1", Model: "NVIDIA A100-SXM4-40GB", Slices: 16_000, Pool: true, UnknownCapacity: true, Index: 3,
		Leaves: []*wire.Leaf{
			{Id: "4711", Slices: 2500, FromMs: proto.Int64(1), ToMs: proto.Int64(9999)},
			{Id: "4712", Slices: 13_500, ToMs: proto.Int64(7000)},
		},
		Holds: []*wire.Hold{{Leaf: "4711", Owner: &wire.Owner{Job: "4711", User: "eve", Account: "physics"}}},
	}
}
