package ingest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
)

// seal is the first half of the SHA-256 of a journal row and of the batch's rows in
// holds: finding other rows with the same seal takes 2^127 attempts. Someone who may
// write to the journal can also write another seal; that is detected only if the
// message is read again from the topic.
type seal [16]byte

// sealOf is the seal of a journal row (sealText) and the half hash of the batch's
// rows.
func sealOf(row []byte, raw seal) seal {
	sum := sha256.Sum256(append(row, raw[:]...))
	return seal(sum[:16])
}

// sealText encodes all columns of a journal row but the seal. A text is its length and
// its bytes, a number a varint, an instant its milliseconds, a list its length and its
// values.
func sealText(row *tables.Batch) []byte {
	t, v := make([]byte, 0, 1024), reflect.ValueOf(row).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); v.Type().Field(i).Name != "Seal" {
			t = appendValue(t, f)
		}
	}
	return t
}

func appendValue(t []byte, v reflect.Value) []byte {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		return binary.AppendVarint(t, v.Addr().Interface().(*time.Time).UnixMilli())
	case v.Kind() == reflect.String:
		return appendText(t, v.String())
	case v.Kind() == reflect.Array:
		return append(t, v.Slice(0, v.Len()).Bytes()...)
	case v.Kind() == reflect.Slice:
		t = binary.AppendUvarint(t, uint64(v.Len()))
		for i := range v.Len() {
			t = appendValue(t, v.Index(i))
		}
		return t
	case v.CanUint():
		return binary.AppendUvarint(t, v.Uint())
	}
	return binary.AppendVarint(t, v.Int())
}

// rawOf hashes the GPUs' rows in the order of their keys. GPUs without rows have no
// part in it, as they have none in the table.
func rawOf(gpus []meter.GPUSlot, rules uint16) seal {
	t := make([]byte, 0, 256*len(gpus))
	slices.SortFunc(gpus, func(a, b meter.GPUSlot) int { return cmp.Compare(a.UUID, b.UUID) })
	for i := range gpus {
		if len(gpus[i].Rows) > 0 {
			t = appendGPU(t, &gpus[i], rules)
		}
	}
	sum := sha256.Sum256(t)
	return seal(sum[:16])
}

func appendGPU(t []byte, g *meter.GPUSlot, rules uint16) []byte {
	t = appendText(appendText(t, g.UUID), g.Model)
	for _, n := range [...]int{g.Slices, int(g.Kind), int(rules), len(g.Rows)} {
		t = binary.AppendUvarint(t, uint64(n))
	}
	if !slices.IsSortedFunc(g.Rows, compareRows) {
		slices.SortFunc(g.Rows, compareRows)
	}
	for i := range g.Rows {
		r := &g.Rows[i]
		t = binary.LittleEndian.AppendUint64(t, r.Leaf)
		t = binary.LittleEndian.AppendUint64(t, r.Owner)
		t = append(t, byte(r.Bucket), byte(r.Why), byte(r.EnergyWhy))
		for _, n := range [...]int64{r.SliceMS, r.Work, r.EnergyMJ, r.UnattributedMJ, int64(r.Head), int64(r.Tail)} {
			t = binary.AppendUvarint(t, uint64(n))
		}
	}
	return t
}

func appendText(t []byte, text string) []byte {
	return append(binary.AppendUvarint(t, uint64(len(text))), text...)
}

// compareRows orders rows as table holds does within a GPU and slot.
func compareRows(a, b meter.Row) int {
	switch {
	case a.Leaf != b.Leaf:
		return cmp.Compare(a.Leaf, b.Leaf)
	case a.Owner != b.Owner:
		return cmp.Compare(a.Owner, b.Owner)
	case a.Bucket != b.Bucket:
		return cmp.Compare(a.Bucket, b.Bucket)
	}
	return cmp.Or(cmp.Compare(a.Why, b.Why), cmp.Compare(a.Head, b.Head))
}
