package field

import (
	"math"
	"slices"
	"testing"
)

func TestCheck(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		id     uint32
		v      float64
		want   float64
		absent string
	}{
		"a ratio":                    {SMActive, 0.25, 0.25, ""},
		"nothing":                    {SMActive, 0, 0, ""},
		"rounding over 1":            {SMActive, 1.01, 1, ""},
		"too much for rounding":      {SMActive, 1.02, 0, AbsentRange},
		"a negative ratio":           {SMActive, -0.001, 0, AbsentRange},
		"NaN":                        {SMActive, math.NaN(), 0, AbsentNaN},
		"infinite":                   {SMActive, inf, 0, AbsentNaN},
		"double blank":               {SMActive, 140737488355328, 0, AbsentBlank},
		"double not permissioned":    {SMActive, 140737488355331, 0, AbsentBlank},
		"32-bit -1":                  {GPUUtil, 4294967295, 0, AbsentRange},
		"int32 blank":                {GPUUtil, 2147483632, 0, AbsentBlank},
		"int64 blank":                {EnergyMJ, 9223372036854775792, 0, AbsentBlank},
		"a counter beyond exactness": {EnergyMJ, 1 << 54, 0, AbsentRange},
		"0 W":                        {PowerWatts, 0, 0, AbsentRange},
		"more than the limit":        {PowerWatts, 730, 730, ""},
		"a flag is no ratio":         {RowRemapFailure, 1.005, 0, AbsentRange},
	} {
		t.Run(name, func(t *testing.T) {
			got, absent := ByID(c.id).Check(c.v)
			if got != c.want || absent != c.absent {
				t.Errorf("Check(%v) of field %d = %v, %q; want %v, %q", c.v, c.id, got, absent, c.want, c.absent)
			}
		})
	}
}

// TestIsBlank: by equality, but for int64 blanks, which a float64 can't tell apart.
func TestIsBlank(t *testing.T) {
	for v, want := range map[float64]bool{
		2147483631: false, 2147483632: true, 2147483635: true, 2147483636: false,
		140737488355327: false, 140737488355328: true, 140737488355331: true, 140737488355332: false,
		9223372036854774784: false, 9223372036854775792: true,
	} {
		if got := IsBlank(v); got != want {
			t.Errorf("IsBlank(%.0f) = %v, want %v", v, got, want)
		}
	}
}

// TestTable: ids and names are unique, ranges make sense, and every name leads
// to its field.
func TestTable(t *testing.T) {
	ids, names := map[uint32]bool{}, map[string]bool{}
	for i := range table.Fields {
		f := &table.Fields[i]
		if ids[f.ID] || len(f.Names) == 0 || f.Min > f.Max {
			t.Errorf("field %d %v: twice, without a name, or range %v to %v", f.ID, f.Names, f.Min, f.Max)
		}
		ids[f.ID] = true
		for _, n := range f.Names {
			if got, _ := ByName(n); names[n] || got.Field() != f {
				t.Errorf("name %q of field %d: twice, or not found", n, f.ID)
			}
			names[n] = true
		}
	}
	for _, f := range WithBase() {
		if got, _ := ByName(f.Base.Name); got.Field() != f || ids[f.Base.ID] {
			t.Errorf("base name %q of field %d: not found, or its id is another field's", f.Base.Name, f.ID)
		}
		ids[f.Base.ID] = true
	}
	if _, known := ByName("DCGM_FI_DEV_NOTHING"); known || ByID(1) != nil {
		t.Error("fields that aren't in the table were found")
	}
}

// TestOnInstance: what DCGM measures per instance; all else falls through to the
// board (DcgmCacheManager.cpp, entity levels of dcgm_fields.cpp).
func TestOnInstance(t *testing.T) {
	var got []uint32
	for id := uint32(1); id < 1200; id++ {
		if OnInstance(id) {
			got = append(got, id)
		}
	}
	want := []uint32{230, 250, 251, 252, 253, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008}
	if !slices.Equal(got, want) {
		t.Errorf("fields of instances are %v, want %v", got, want)
	}
}
