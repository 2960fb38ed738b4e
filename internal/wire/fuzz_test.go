package wire_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/wire"
)

// FuzzDecode: no bytes make Decode panic, every refusal has a reason, and what
// it accepts survives a round trip.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, richBatch()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var b *wire.Batch
		var unknown int
		var err error
		costtest.Within(t, costtest.Time, 64<<20+64*uint64(len(data)), func() { b, unknown, err = wire.Decode(data) })
		if err != nil {
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Reason == "" {
				t.Fatalf("refused without a reason: %v", err)
			}
			return
		}
		first := encode(t, b)
		back, again, err := wire.Decode(first)
		if err != nil || again != unknown {
			t.Fatalf("decode what was encoded: %v; %d unknown fields, were %d", err, again, unknown)
		}
		// Bytes, not messages: NaN equals nothing.
		if second := encode(t, back); string(second) != string(first) {
			t.Errorf("round trip changes the batch:\n%x\n%x", first, second)
		}
		if wire.Rev(b) != wire.Rev(back) || wire.Hash(b, first) != wire.Hash(back, first) {
			t.Error("round trip changes rev or hash")
		}
		if seen := wire.ObservedMS(b); seen < 0 || seen > b.SlotMs {
			t.Errorf("observed %d ms of a slot of %d", seen, b.SlotMs)
		}
	})
}

// FuzzParseJSONLine: no line panics, and every accepted line is a valid batch.
func FuzzParseJSONLine(f *testing.F) {
	files, err := filepath.Glob("../../testdata/contract/cases/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatalf("worked cases: %d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var b *wire.Batch
		var err error
		costtest.Within(t, costtest.Time, 64<<20+256*uint64(len(line)), func() { b, err = wire.ParseJSONLine(line) })
		if err != nil {
			return
		}
		if _, unknown, err := wire.Decode(encode(t, b)); err != nil || unknown != 0 {
			t.Errorf("an accepted line is no valid batch: %v, %d unknown fields", err, unknown)
		}
	})
}
