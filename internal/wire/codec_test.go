package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/internal/wire"
)

var update = flag.Bool("update", false, "write the goldens anew")

const golden = "../../testdata/golden/wire/batch_v1"

func encode(t testing.TB, b *wire.Batch) []byte {
	t.Helper()
	data, err := wire.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGolden: bytes on the topic outlive versions, so they never change.
func TestGolden(t *testing.T) {
	b := richBatch()
	data := encode(t, b)
	text := indented(t, b)
	if *update {
		writeGolden(t, golden+".bin", data)
		writeGolden(t, golden+".json", text)
	}
	if diff := cmp.Diff(string(readGolden(t, golden+".json")), string(text)); diff != "" {
		t.Errorf("batch differs from %s.json (-want +got):\n%s", golden, diff)
	}
	want := readGolden(t, golden+".bin")
	if !bytes.Equal(want, data) {
		t.Errorf("encoded batch differs from %s.bin:\nwant %x\ngot  %x", golden, want, data)
	}
	back, unknown, err := wire.Decode(want)
	if err != nil || unknown != 0 {
		t.Fatalf("decode golden: %d unknown fields, %v", unknown, err)
	}
	if diff := cmp.Diff(b, back, protocmp.Transform()); diff != "" {
		t.Errorf("decoded golden differs (-want +got):\n%s", diff)
	}
}

// indented is stable, unlike protojson's own white space.
func indented(t *testing.T, b *wire.Batch) []byte {
	t.Helper()
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func writeGolden(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func readGolden(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRichBatchIsRich: a field added to the contract has to enter the golden.
func TestRichBatchIsRich(t *testing.T) {
	set := map[protoreflect.FullName]bool{}
	var visit func(protoreflect.Message)
	visit = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			set[f.FullName()] = true
			switch {
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					visit(v.List().Get(i).Message())
				}
			case f.Message() != nil && !f.IsMap():
				visit(v.Message())
			}
			return true
		})
	}
	b := richBatch()
	encode(t, b)
	visit(b.ProtoReflect())
	b.Unobserved, b.Fill = true, true
	visit(b.ProtoReflect())
	messages := wire.File_internal_wire_batch_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		if messages.Get(i).Name() == "BatchHead" {
			continue // its fields are Batch's
		}
		for j := range fields.Len() {
			if name := fields.Get(j).FullName(); !set[name] {
				t.Errorf("richBatch leaves %s out", name)
			}
		}
	}
}

// TestBatchHeadIsTheBatchs: the head of an encoded batch has the batch's identity.
func TestBatchHeadIsTheBatchs(t *testing.T) {
	head, batch := (&wire.BatchHead{}).ProtoReflect().Descriptor().Fields(), (&wire.Batch{}).ProtoReflect().Descriptor().Fields()
	for i := range head.Len() {
		f := head.Get(i)
		same := batch.ByNumber(f.Number())
		if same == nil || same.Name() != f.Name() || same.Kind() != f.Kind() {
			t.Errorf("%s is field %d of BatchHead, and not of Batch", f.Name(), f.Number())
		}
	}
	var h wire.BatchHead
	b := richBatch()
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(encode(t, b), &h); err != nil || h.Node != b.Node || h.Seq != b.Seq {
		t.Errorf("got %v, %v; want the identity of %s, %d", &h, err, b.Node, b.Seq)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := encode(t, richBatch())
	other := richBatch()
	other.Format = 2
	format2, err := proto.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	bad := richBatch()
	bad.Node = ""
	for name, c := range map[string]struct {
		data         []byte
		reason, says string
	}{
		"torn":           {good[:len(good)-3], "garbage", "decode batch of"},
		"not protobuf":   {[]byte("{}"), "garbage", "2 bytes"},
		"empty":          {nil, "format", "format 0, this version reads format 1"},
		"another format": {format2, "format", "format 2, this version reads format 1"},
		"invalid":        {encode(t, bad), "invalid", "node is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, err := wire.Decode(c.data)
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Reason != c.reason || !strings.Contains(err.Error(), c.says) || b != nil {
				t.Errorf("Decode = %v, %v; want reason %q and %q", b, err, c.reason, c.says)
			}
		})
	}
}

func TestDecodeCountsUnknownFields(t *testing.T) {
	field := protowire.AppendVarint(protowire.AppendTag(nil, 2000, protowire.VarintType), 1)
	b := richBatch()
	for _, m := range []proto.Message{
		b, b.Observed[0], b.Counters, b.Predecessor, b.Gaps[0], b.Events[0],
		b.Gpus[0], b.Gpus[0].Leaves[0], b.Gpus[0].Holds[0], b.Gpus[0].Holds[0].Owner,
	} {
		m.ProtoReflect().SetUnknown(field)
	}
	b.ProtoReflect().SetUnknown(append(bytes.Clone(field), field...))
	back, unknown, err := wire.Decode(encode(t, b))
	if err != nil || unknown != 11 {
		t.Errorf("Decode counts %d unknown fields, %v; want 11", unknown, err)
	}
	if back.GetNode() != "n1" {
		t.Errorf("node %q; want n1", back.GetNode())
	}
}

func TestHash(t *testing.T) {
	hash := func(b *wire.Batch) [32]byte { return wire.Hash(b, encode(t, b)) }
	delivered := richBatch()
	delivered.WindowFromMs, delivered.WindowToMs, delivered.ClusterSlotMs = 1, 2, 30_000
	if hash(richBatch()) != hash(delivered) {
		t.Error("how a replay was delivered changes its hash")
	}
	if delivered.WindowToMs != 2 || delivered.ClusterSlotMs != 30_000 {
		t.Errorf("Hash changed the batch: %v", delivered)
	}
	other := richBatch()
	other.Gpus[0].Holds = other.Gpus[0].Holds[:1]
	if hash(richBatch()) == hash(other) {
		t.Error("a batch with fewer holds has the same hash")
	}
	live, later := richBatch(), richBatch()
	live.Origin, later.Origin = wire.Origin_ORIGIN_LIVE, wire.Origin_ORIGIN_LIVE
	later.ClusterSlotMs = 30_000
	if hash(live) == hash(later) {
		t.Error("a live batch's hash is not that of its bytes")
	}
	h := hash(live)
	if got, want := wire.ID(h), binary.BigEndian.Uint64(h[:]); got != want {
		t.Errorf("ID = %x, want %x", got, want)
	}
}
