package ingest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/gpuledger/gpuledger/internal/meter"
	"github.com/gpuledger/gpuledger/internal/wire"
)

func sampleFacts() facts {
	return facts{cluster: "c", node: "n", collector: "k", observed: []uint32{0, 10}, gpus: []string{"a", "b"}}
}

func sampleGPUs() []meter.GPUSlot {
	return []meter.GPUSlot{
		{UUID: "a", Rows: []meter.Row{{Leaf: 1, Owner: 2}, {Leaf: 1, Owner: 3}}},
		{UUID: "b", Rows: []meter.Row{{Leaf: 4}}},
	}
}

// change gives every field of a struct another value in turn.
func change(t *testing.T, v reflect.Value, skip []string, each func(field string)) {
	t.Helper()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if slices.Contains(skip, name) {
			continue
		}
		f := reflect.NewAt(v.Field(i).Type(), v.Field(i).Addr().UnsafePointer()).Elem()
		was := reflect.New(f.Type()).Elem()
		was.Set(f)
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			f.SetUint(f.Uint() + 1)
		case reflect.Int, reflect.Int8, reflect.Int64:
			f.SetInt(f.Int() + 1)
		case reflect.Array:
			f.Index(f.Len() - 1).SetUint(1)
		case reflect.Slice:
			f.Set(f.Slice(0, 1))
		default:
			t.Fatalf("field %s is a %s: say how it changes", name, f.Kind())
		}
		each(name)
		f.Set(was)
	}
}

func TestM1EverySealedFactChangesTheSeal(t *testing.T) {
	f, gpus := sampleFacts(), sampleGPUs()
	want := sealOf(&f, gpus, 1)
	differs := func(what string) {
		if sealOf(&f, gpus, 1) == want {
			t.Errorf("another %s has the same seal", what)
		}
	}
	change(t, reflect.ValueOf(&f).Elem(), nil, differs)
	change(t, reflect.ValueOf(&gpus[1]).Elem(), []string{"Rows", "Finding"}, differs)
	change(t, reflect.ValueOf(&gpus[1].Rows[0]).Elem(), nil, differs)
	if sealOf(&f, gpus, 2) == want {
		t.Error("other rules have the same seal")
	}
	gpus[0], gpus[1] = gpus[1], gpus[0]
	gpus[1].Rows[0], gpus[1].Rows[1] = gpus[1].Rows[1], gpus[1].Rows[0]
	if sealOf(&f, append(gpus, meter.GPUSlot{UUID: "c"}), 1) != want {
		t.Error("the order of rows, or a GPU without any, changes the seal")
	}
}

func benchBatch() *wire.Batch {
	b := &wire.Batch{Cluster: "c", Node: "node-1", Collector: "node-1", SlotStartMs: 1_800_000_000_000, SlotMs: 10_000}
	for i := range 8 {
		g := &wire.Gpu{Uuid: fmt.Sprintf("GPU-%032d", i), Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: true, EnergyMj: new(int64(4_000_000)), IdleWatts: new(80.0)}
		for gi := range uint32(7) {
			id := fmt.Sprintf("gi-%d", gi)
			g.Leaves = append(g.Leaves, &wire.Leaf{Id: id, Slices: 1, Profile: "1g.10gb", Gi: new(gi), GrEngineActive: new(0.5), SmActive: new(0.4)})
			g.Holds = append(g.Holds, &wire.Hold{Leaf: id, Owner: &wire.Owner{Uid: "pod-" + id, Namespace: "team", Pod: "pod-" + id}})
		}
		b.Gpus = append(b.Gpus, g)
	}
	return b
}

// BenchmarkSeal is one batch of eight GPUs of seven instances, 56 rows of holds:
// what it takes to decode and settle it, and to seal it.
func BenchmarkSeal(b *testing.B) {
	data, err := wire.Encode(benchBatch())
	if err != nil {
		b.Fatal(err)
	}
	ids := meter.NewIdentities()
	var it item
	b.Run("settle", func(b *testing.B) {
		for b.Loop() {
			batch, _, err := wire.Decode(data)
			if err != nil {
				b.Fatal(err)
			}
			it = item{batch: batch, hash: wire.Hash(batch, data), gpus: meter.Settle(batch, ids)}
		}
	})
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			f := factsOf(&it)
			it.seal = sealOf(&f, it.gpus, meter.RulesVersion)
		}
	})
}
