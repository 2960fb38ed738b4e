package dcgm

import (
	"math"

	"github.com/gputally/gputally/collector/source/field"
)

// valueOf a record is a float64, by the kind of the field (DCGM_FT_*). ok says
// that it is a number and not blank.
func valueOf(r *record) (v float64, ok bool) {
	switch r._type {
	case 'd':
		v = math.Float64frombits(uint64(r.value))
	case 'i', 't':
		v = float64(int64(r.value))
	default:
		return 0, false
	}
	return v, !field.IsBlank(v)
}
