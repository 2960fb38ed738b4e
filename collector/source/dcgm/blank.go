package dcgm

import (
	"math"
	"unsafe"
)

// DCGM's blanks (dcgm_structs.h, DCGM_*_BLANK and the three after each): no
// value, not found, not supported, not permitted.
const (
	int64Blank  = 0x7ffffffffffffff0
	int32Blank  = 0x7ffffff0
	doubleBlank = 1 << 47
)

// blankInt also knows an int32's blank inside an int64.
func blankInt(n int64) bool {
	return (n >= int64Blank && n <= int64Blank+3) || (n >= int32Blank && n <= int32Blank+3)
}

// blankDouble compares by equality: counters may rightly grow beyond it.
func blankDouble(v float64) bool {
	return v >= doubleBlank && v <= doubleBlank+3 && v == math.Trunc(v)
}

func ptr(v *[4096]byte) unsafe.Pointer { return unsafe.Pointer(v) }

// valueOf a record is a float64, by the kind of the field (DCGM_FT_*). ok says
// that it is a number and not blank.
func valueOf(r *record) (v float64, ok bool) {
	switch r._type {
	case 'd':
		v = math.Float64frombits(uint64(r.value))
		return v, !blankDouble(v)
	case 'i', 't':
		n := int64(r.value)
		return float64(n), !blankInt(n)
	}
	return 0, false
}
