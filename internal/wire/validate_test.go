package wire_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gputally/gputally/internal/wire"
)

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*wire.Batch){
		"the rich batch":                   func(*wire.Batch) {},
		"no GPUs":                          func(b *wire.Batch) { b.Gpus = nil },
		"parts that touch":                 func(b *wire.Batch) { b.Observed[1].FromMs = 3000 },
		"readings out of range are absent": func(b *wire.Batch) { b.Gpus[0].Leaves[0].SmActive = proto.Float64(math.NaN()) },
		"an empty hold":                    func(b *wire.Batch) { b.Gpus[0].Holds[0].FromMs = proto.Int64(3000) },
		"one leaf id on two GPUs":          func(b *wire.Batch) { b.Gpus[1].Leaves[1].Id = "gpu" },
		"a pool of a million GPUs":         func(b *wire.Batch) { b.Gpus[3].Slices = 1_000_000_000 },
		"a new instance under an old number, later": func(b *wire.Batch) {
			b.Gpus[1].Leaves[2].Ci = proto.Uint32(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := richBatch()
			change(b)
			if err := wire.Validate(b); err != nil {
				t.Errorf("Validate = %v, want nil", err)
			}
		})
	}
}

// TestValidateRefuses: every bad line gives an error with place, field and value.
func TestValidateRefuses(t *testing.T) {
	for want, change := range map[string]func(*wire.Batch){
		`cluster is empty`:             func(b *wire.Batch) { b.Cluster = "" },
		`node is empty`:                func(b *wire.Batch) { b.Node = "" },
		`collector is empty`:           func(b *wire.Batch) { b.Collector = "" },
		`slot_ms 0:`:                   func(b *wire.Batch) { b.SlotMs = 0 },
		`slot_ms -10000:`:              func(b *wire.Batch) { b.SlotMs = -10_000 },
		`slot_ms 7000:`:                func(b *wire.Batch) { b.SlotMs = 7000 },
		`slot_ms 500:`:                 func(b *wire.Batch) { b.SlotMs = 500 },
		`slot_ms 7200000:`:             func(b *wire.Batch) { b.SlotMs = 7_200_000 },
		`slot 1772323205000:`:          func(b *wire.Batch) { b.SlotStartMs += 5000 },
		`slot -10000:`:                 func(b *wire.Batch) { b.SlotStartMs = -10_000 },
		`cluster_slot_ms 1:`:           func(b *wire.Batch) { b.ClusterSlotMs = 1 },
		`slot 4294967300000: is after`: func(b *wire.Batch) { b.SlotStartMs = 4_294_967_300_000 },
		`boot_ms -1:`:                  func(b *wire.Batch) { b.BootMs = -1 },
		`observed[0] [-1, 3000)`:       func(b *wire.Batch) { b.Observed[0].FromMs = -1 },
		`observed[1] [2000, 10000)`:    func(b *wire.Batch) { b.Observed[1].FromMs = 2000 },
		`observed[1] [7000, 10001)`:    func(b *wire.Batch) { b.Observed[1].ToMs = 10_001 },
		`observed[0] [0, 0)`:           func(b *wire.Batch) { b.Observed[0].ToMs = 0 },
		`gpus[1].uuid is empty`:        func(b *wire.Batch) { b.Gpus[1].Uuid = "" },
		`gpus[1].uuid "GPU-whole"`:     func(b *wire.Batch) { b.Gpus[1].Uuid = "GPU-whole" },
		`leaves[0] ("\x1b[2J"): slices 10001:`: func(b *wire.Batch) {
			b.Gpus[0].Leaves[0].Id, b.Gpus[0].Leaves[0].Slices = "\x1b[2J", 10_001
		},
		`(GPU-whole): energy_mj -1:`:            func(b *wire.Batch) { b.Gpus[0].EnergyMj = proto.Int64(-1) },
		`energy_span_ms -1:`:                    func(b *wire.Batch) { b.Gpus[0].EnergySpanMs = proto.Int64(-1) },
		`(GPU-whole): slices 1025:`:             func(b *wire.Batch) { b.Gpus[0].Slices = 1025 },
		`leaves[0] (""): id is empty`:           func(b *wire.Batch) { b.Gpus[0].Leaves[0].Id = "" },
		`leaves[1].id "gi1" is listed`:          func(b *wire.Batch) { b.Gpus[1].Leaves[1].Id = "gi1" },
		`leaves[0] ("gpu"): slices 1025:`:       func(b *wire.Batch) { b.Gpus[0].Leaves[0].Slices = 1025 },
		`leaves[0] ("gpu"): replicas 65536:`:    func(b *wire.Batch) { b.Gpus[0].Leaves[0].Replicas = 65_536 },
		`leaves[0] ("gi1"): from 0 to 1000`:     func(b *wire.Batch) { b.Gpus[1].Leaves[0].ToMs = proto.Int64(10_001) },
		`leaves[2] ("gi0"): from -7000 to`:      func(b *wire.Batch) { b.Gpus[1].Leaves[2].FromMs = proto.Int64(-7000) },
		`holds[0].leaf "nvlink"`:                func(b *wire.Batch) { b.Gpus[0].Holds[0].Leaf = "nvlink" },
		`holds[0]: from 3001 to 3000`:           func(b *wire.Batch) { b.Gpus[0].Holds[0].FromMs = proto.Int64(3001) },
		`holds[2]: from 0 to 20000`:             func(b *wire.Batch) { b.Gpus[0].Holds[2].ToMs = proto.Int64(20_000) },
		`holds[1]: owner is missing`:            func(b *wire.Batch) { b.Gpus[0].Holds[1].Owner = nil },
		`(GPU-whole): unknown_capacity: only`:   func(b *wire.Batch) { b.Gpus[0].UnknownCapacity = true },
		`(k/n1): slices 0: a pool has 1 to`:     func(b *wire.Batch) { b.Gpus[3].Slices = 0 },
		`slices of all pools: 1000000001`:       func(b *wire.Batch) { b.Gpus[3].Slices = 1_000_000_001 },
		`(k/n1): mig: a pool has no`:            func(b *wire.Batch) { b.Gpus[3].Mig = true },
		`(k/n1): energy_mj: a pool has no`:      func(b *wire.Batch) { b.Gpus[3].EnergyMj = proto.Int64(0) },
		`leaves[0].slices 0: an allocation`:     func(b *wire.Batch) { b.Gpus[3].Leaves[0].Slices = 0 },
		`leaves[1].slices 1000000001: an`:       func(b *wire.Batch) { b.Gpus[3].Leaves[1].Slices = 1_000_000_001 },
		`leaves[1] ("4712"): a pool has no MIG`: func(b *wire.Batch) { b.Gpus[3].Leaves[1].Gi = proto.Uint32(1) },
		`metric_values differ in length`:        func(b *wire.Batch) { b.Gpus[0].MetricValues = nil },
		`leaves[0] ("gpu"): metric_fields`:      func(b *wire.Batch) { b.Gpus[0].Leaves[0].MetricValues = nil },
		`(gi1): GPU instance 0 overlaps its own compute instance gi2/0`: func(b *wire.Batch) {
			b.Gpus[1].Leaves[1].Gi = proto.Uint32(0)
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := richBatch()
			change(b)
			if err := wire.Validate(b); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Validate = %v, want an error with %q", err, want)
			}
		})
	}
}

// TestValidateFill: a fill carries what records can tell, and nothing that only
// somebody who looked could (R18).
func TestValidateFill(t *testing.T) {
	for want, change := range map[string]func(*wire.Batch){
		"":                                func(*wire.Batch) {},
		"origin ORIGIN_LIVE":              func(b *wire.Batch) { b.Origin = wire.Origin_ORIGIN_LIVE },
		"attribution, enumeration":        func(b *wire.Batch) { b.Attribution = wire.Attribution_ATTRIBUTION_FAILED },
		"or observed: allocation records": func(b *wire.Batch) { b.Observed = []*wire.Interval{{ToMs: 1}} },
		"1 events":                        func(b *wire.Batch) { b.Events = []*wire.Event{{Kind: "xid"}} },
		`gpus[0] ("g"): pool`:             func(b *wire.Batch) { b.Gpus[0].Lost = true },
		"energy and metrics":              func(b *wire.Batch) { b.Gpus[0].EnergyMj = proto.Int64(0) },
		`gpus[0].leaves[0] ("gpu")`:       func(b *wire.Batch) { b.Gpus[0].Leaves[0].GpuUtil = proto.Float64(0) },
	} {
		b := &wire.Batch{
			Format: wire.Format, Cluster: "k", Node: "n", Collector: "c", SlotStartMs: wire.MinTimeMS, SlotMs: 10_000, Fill: true,
			Origin: wire.Origin_ORIGIN_IMPORT, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
			Gpus: []*wire.Gpu{{Uuid: "g", Leaves: []*wire.Leaf{{Id: "gpu"}}, Holds: []*wire.Hold{{Leaf: "gpu", Owner: &wire.Owner{Job: "1"}}}}},
		}
		change(b)
		err := wire.Validate(b)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "fill: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("Validate = %v, want %q", err, want)
		}
	}
}

// TestH6EnumsAreClosed: a value that an enum of the contract doesn't have is
// refused, whichever enum it is.
func TestH6EnumsAreClosed(t *testing.T) {
	found := 0
	var walk func(path string, m protoreflect.MessageDescriptor)
	walk = func(path string, m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			at := path + string(f.Name())
			switch {
			case f.Message() != nil:
				walk(at+".", f.Message())
			case f.Enum() != nil && path != "":
				t.Errorf("%s is an enum: Validate must look at it, and this test", at)
			case f.Enum() != nil:
				found++
				for _, value := range []protoreflect.EnumNumber{-1, protoreflect.EnumNumber(f.Enum().Values().Len()), 99, 129, 300, math.MaxInt32} {
					b := richBatch()
					b.ProtoReflect().Set(f, protoreflect.ValueOfEnum(value))
					refused(t, encode(t, b), "invalid", fmt.Sprintf("%s %d:", at, value))
				}
			}
		}
	}
	walk("", richBatch().ProtoReflect().Descriptor())
	if found == 0 {
		t.Error("no enum was found")
	}
}
