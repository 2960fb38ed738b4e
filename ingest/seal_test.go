package ingest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
	"github.com/gputally/gputally/internal/wire"
)

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
	gpus := sampleGPUs()
	want := rawOf(gpus, 1)
	differs := func(what string) {
		if rawOf(gpus, 1) == want {
			t.Errorf("another %s has the same seal", what)
		}
	}
	change(t, reflect.ValueOf(&gpus[1]).Elem(), []string{"Rows", "Finding"}, differs)
	change(t, reflect.ValueOf(&gpus[1].Rows[0]).Elem(), nil, differs)
	if rawOf(gpus, 2) == want {
		t.Error("other rules have the same seal")
	}
	gpus[0], gpus[1] = gpus[1], gpus[0]
	gpus[1].Rows[0], gpus[1].Rows[1] = gpus[1].Rows[1], gpus[1].Rows[0]
	if rawOf(append(gpus, meter.GPUSlot{UUID: "c"}), 1) != want {
		t.Error("the order of rows, or a GPU without any, changes the seal")
	}
}

// rich is a message that leaves no column of the journal empty.
func rich() *item {
	b := benchBatch()
	b.Origin = wire.Origin_ORIGIN_IMPORT
	b.Observed = []*wire.Interval{{FromMs: 0, ToMs: 1000}, {FromMs: 2000, ToMs: 3000}}
	b.Counters = &wire.Counters{Sampled: 7, Spooled: 6, Dropped: map[string]uint64{"full": 1}, SpoolDropped: 1}
	b.Predecessor = &wire.Predecessor{BootMs: 5, LastSeq: 4}
	b.Gaps = []*wire.SeqGap{{BootMs: 5, FromSeq: 1, ToSeq: 2}, {BootMs: 6, FromSeq: 3, ToSeq: 4}}
	at := time.Unix(1_800_000_000, 0)
	return &item{
		batch: b, msg: broker.Message{Topic: broker.TopicSamples, Partition: 1, Offset: 2, Time: at}, unknown: 1,
		id: 9, hash: [32]byte{1},
	}
}

// TestM1EveryJournalColumnIsSealed: whichever column of a row is changed, its seal is
// another one, and a status that gets another is too.
func TestM1EveryJournalColumnIsSealed(t *testing.T) {
	other := rich()
	other.batch = &wire.Batch{
		Cluster: "d", Node: "m", Collector: "l", SlotStartMs: 1_800_003_600_000, SlotMs: 20_000,
		BootMs: 1, Seq: 1, Attribution: wire.Attribution_ATTRIBUTION_FAILED,
		Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
	}
	other.gpus = sampleGPUs()
	other.msg = broker.Message{Topic: "t", Partition: 2, Offset: 3, Time: time.Unix(1_900_000_000, 0)}
	other.late, other.id, other.unknown, other.hash = true, 0, 0, [32]byte{2}
	now := time.Unix(1_800_000_100, 0)
	a, b := journalRow(rich(), now), journalRow(other, now.Add(time.Second))
	want := sealText(&a)
	for i := range reflect.TypeFor[tables.Batch]().NumField() {
		name := reflect.TypeFor[tables.Batch]().Field(i).Name
		if name == "Seal" {
			continue
		}
		changed := a
		into, from := reflect.ValueOf(&changed).Elem().Field(i), reflect.ValueOf(&b).Elem().Field(i)
		if reflect.DeepEqual(into.Interface(), from.Interface()) {
			t.Errorf("both rows have the same %s", name)
		}
		into.Set(from)
		if bytes.Equal(sealText(&changed), want) {
			t.Errorf("another %s has the same seal", name)
		}
	}
}

func benchBatch() *wire.Batch {
	b := &wire.Batch{Cluster: "c", Node: "node-1", Collector: "node-1", SlotStartMs: 1_800_000_000_000, SlotMs: 10_000}
	for i := range 8 {
		g := &wire.Gpu{
			Uuid: fmt.Sprintf("GPU-%032d", i), Model: "NVIDIA H100 80GB HBM3", Slices: 7, Mig: true,
			EnergyMj: new(int64(4_000_000)), IdleWatts: new(80.0),
		}
		for gi := range uint32(7) {
			id := fmt.Sprintf("gi-%d", gi)
			g.Leaves = append(g.Leaves,
				&wire.Leaf{Id: id, Slices: 1, Profile: "1g.10gb", Gi: new(gi), GrEngineActive: new(0.5), SmActive: new(0.4)})
			g.Holds = append(g.Holds,
				&wire.Hold{Leaf: id, Owner: &wire.Owner{Uid: "pod-" + id, Namespace: "team", Pod: "pod-" + id}})
		}
		b.Gpus = append(b.Gpus, g)
	}
	return b
}

// BenchmarkSeal is one batch of eight GPUs of seven instances, 56 rows of holds:
// what it takes to decode and settle it, and to seal and journal it.
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
			it = item{batch: batch, hash: wire.Hash(batch, data), gpus: meter.Classify(batch, ids)}
		}
	})
	c, now := newJournalBlock(), time.Unix(1_800_000_000, 0)
	b.Run("seal and journal", func(b *testing.B) {
		for b.Loop() {
			it.raw = rawOf(it.gpus, meter.RulesVersion)
			c.add(&it, now)
			if c.Rows() == 1000 {
				c = newJournalBlock()
			}
		}
	})
}
