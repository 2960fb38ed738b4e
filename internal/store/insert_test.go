package store_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/store/storetest"
)

const createKinds = `CREATE TABLE kinds
(
    n UInt64,
    label LowCardinality(String),
    labels Array(LowCardinality(String)),
    status Enum8('stored' = 1, 'dead' = 2),
    status_by_name Enum8('stored' = 1, 'dead' = 2),
    slot DateTime('UTC'),
    at DateTime64(3, 'UTC'),
    hash FixedString(32),
    cost Decimal(38, 9),
    pairs Array(UInt32)
) ENGINE = MergeTree ORDER BY n`

type kindsRow struct {
	N            uint64          `ch:"n"`
	Label        string          `ch:"label"`
	Labels       []string        `ch:"labels"`
	Status       string          `ch:"status"`
	StatusByName string          `ch:"status_by_name"`
	Slot         time.Time       `ch:"slot"`
	At           time.Time       `ch:"at"`
	Hash         string          `ch:"hash"`
	Cost         decimal.Decimal `ch:"cost"`
	Pairs        []uint32        `ch:"pairs"`
}

func TestInsertRoundTripsEveryColumnTypeOfTheTables(t *testing.T) {
	db := storetest.Open(t)
	if err := db.Exec(t.Context(), createKinds); err != nil {
		t.Fatal(err)
	}
	slot := time.Date(2026, 3, 1, 10, 0, 10, 0, time.UTC)
	const hash = "0123456789abcdef\n\n0123456789abcd"
	want := []kindsRow{
		{
			1, "node-a",
			[]string{"g1", "g2"},
			"stored", "dead", slot, slot.Add(7 * time.Millisecond), hash,
			decimal.RequireFromString("12345678901234567890.123456789"),
			[]uint32{0, 5},
		},
		{2, "", nil, "dead", "stored", slot, slot, hash, decimal.RequireFromString("-0.000000001"), nil},
	}
	if err := db.Insert(t.Context(), "kinds", kindsInput(t, want)); err != nil {
		t.Fatal(err)
	}
	var got []kindsRow
	if err := db.Select(t.Context(), &got, "SELECT * FROM kinds ORDER BY n"); err != nil {
		t.Fatal(err)
	}
	byValue := cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, got, byValue, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func kindsInput(t *testing.T, rows []kindsRow) proto.Input {
	t.Helper()
	var (
		n      proto.ColUInt64
		label  = new(proto.ColStr).LowCardinality()
		labels = proto.NewArray(new(proto.ColStr).LowCardinality())
		status proto.ColInt8
		byName proto.ColStr
		slot   = proto.ColDateTime{Location: time.UTC}
		at     = new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
		hash   proto.ColFixedStr
		cost   proto.ColDecimal128
		pairs  = proto.NewArrUInt32()
	)
	hash.SetSize(32)
	for _, r := range rows {
		n.Append(r.N)
		label.Append(r.Label)
		labels.Append(r.Labels)
		status.Append(map[string]int8{"stored": 1, "dead": 2}[r.Status])
		byName.Append(r.StatusByName)
		slot.Append(r.Slot)
		at.Append(r.At)
		hash.Append([]byte(r.Hash))
		scaled := r.Cost.Shift(9).BigInt()
		cost.Append(int128(scaled))
		pairs.Append(r.Pairs)
	}
	return proto.Input{
		{Name: "n", Data: n},
		{Name: "label", Data: label},
		{Name: "labels", Data: labels},
		{Name: "status", Data: status},
		{Name: "status_by_name", Data: byName},
		{Name: "slot", Data: slot},
		{Name: "at", Data: at},
		{Name: "hash", Data: hash},
		{Name: "cost", Data: proto.Alias(&cost, "Decimal(38, 9)")},
		{Name: "pairs", Data: pairs},
	}
}

// int128 gives v in two's complement; v must fit.
func int128(v *big.Int) proto.Decimal128 {
	mod := new(big.Int).Lsh(big.NewInt(1), 64)
	low := new(big.Int).Mod(v, mod)
	high := new(big.Int).Rsh(v, 64) // floors, so the sign stays
	return proto.Decimal128{Low: low.Uint64(), High: uint64(high.Int64())}
}
