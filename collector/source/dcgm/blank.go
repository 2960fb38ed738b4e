package dcgm

import (
	"math"

	"github.com/gputally/gputally/collector/source/field"
)

// valueOf converts a record to float64, by the field's type (DCGM_FT_*). ok is false if it isn't a number, or
// blank.
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
