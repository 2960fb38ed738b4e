package store_test

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/storetest"
	"github.com/gputally/gputally/internal/tables"
)

// fillRandomly sets every field of a row, nested ones too; whole seconds suit
// every type of time, small numbers every enum and decimal.
func fillRandomly(rng *rand.Rand, v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(86_400*rng.Int64N(40_000), 0).UTC()))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fillRandomly(rng, v.Field(i))
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			fillRandomly(rng, v.Index(i))
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(3), 4))
		for i := range v.Len() {
			fillRandomly(rng, v.Index(i))
		}
	case v.Kind() == reflect.String:
		v.SetString(strconv.Itoa(rng.IntN(1_000_000_000)))
	case v.Kind() == reflect.Uint8:
		v.SetUint(rng.Uint64N(200))
	case v.Kind() == reflect.Uint16:
		v.SetUint(rng.Uint64N(60_000))
	case v.CanUint():
		v.SetUint(rng.Uint64N(1 << 31))
	case v.CanFloat():
		v.SetFloat(rng.NormFloat64())
	case v.Kind() == reflect.Int8: // an enum
		v.SetInt(1 + rng.Int64N(4))
	default:
		v.SetInt(rng.Int64N(1 << 31))
	}
}

// roundTrip inserts rows of every table through a block, reads them back through
// another one and by Select, and compares.
func roundTrip[R any](t *testing.T, db *store.DB, table string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(len(table))))
	block, want := tables.NewBlock[R](), make([]R, 20)
	for i := range want {
		fillRandomly(rng, reflect.ValueOf(&want[i]).Elem())
		block.Add(&want[i])
	}
	if err := db.Insert(t.Context(), table, block.Input()); err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	definition, err := tables.Find(table)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(definition.Create(), "Decimal") {
		return // read as numbers where it is read
	}
	count := map[string]int{}
	for i := range want {
		count[cmp.Diff(*new(R), want[i])]++
	}
	read := tables.NewBlock[R]()
	err = db.Stream(t.Context(), read.Results(), func(rows int) error {
		for i := range rows {
			var got R
			read.Row(i, &got)
			count[cmp.Diff(*new(R), got)]--
		}
		return nil
	}, "SELECT "+tables.Columns[R]()+" FROM "+table)
	if err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	for row, n := range count {
		if n != 0 {
			t.Fatalf("%s: a row was written %d times more than read:\n%s", table, n, row)
		}
	}
}

func TestRowsOfEveryTableRoundTrip(t *testing.T) {
	db := storetest.Open(t)
	for table, test := range map[string]func(*testing.T, *store.DB, string){
		"clusters": roundTrip[tables.Cluster], "batches": roundTrip[tables.Batch], "holds": roundTrip[tables.Hold],
		"samples": roundTrip[tables.Sample], "leaves": roundTrip[tables.Leaf], "owners": roundTrip[tables.Owner],
		"events": roundTrip[tables.Event], "raw_weeks": roundTrip[tables.RawWeek], "late_unprocessed": roundTrip[tables.Late],
		"epochs": roundTrip[tables.Epoch], "sightings": roundTrip[tables.Sighting],
		"retirements": roundTrip[tables.Retirement],
		"anomalies":   roundTrip[tables.Anomaly], "allocations": roundTrip[tables.Allocation],
		"allocation_hours": roundTrip[tables.AllocationHour], "decisions": roundTrip[tables.Decision],
		"invoices": roundTrip[tables.Invoice], "invoice_usage": roundTrip[tables.InvoiceUsage],
	} {
		test(t, db, table)
	}
	row := tables.UsageHour{
		Cluster: "c",
		Usage:   tables.Usage{GPU: "g", Slices: 7, PresentMS: 10, Free: 70, Owner: []uint64{}},
	}
	block := tables.NewBlock[tables.UsageHour]()
	block.Add(&row)
	if err := db.Insert(t.Context(), "usage_hourly", block.Input()); err != nil {
		t.Fatal(err)
	}
	var got []tables.UsageHour
	if err := db.Select(t.Context(), &got,
		"SELECT "+tables.Columns[tables.UsageHour]()+" FROM usage_hourly"); err != nil || len(got) != 1 ||
		got[0].Free != 70 || got[0].Cluster != "c" {
		t.Errorf("usage_hourly: got %+v, %v", got, err)
	}
}
