package meter

import "math/bits"

// u128 is an unsigned 128-bit integer: energy × slice-milliseconds × activity needs
// more than 64 bits.
type u128 struct{ hi, lo uint64 }

func mul(a, b uint64) u128 {
	hi, lo := bits.Mul64(a, b)
	return u128{hi, lo}
}

func (x u128) add(y u128) u128 {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	hi, _ := bits.Add64(x.hi, y.hi, carry)
	return u128{hi, lo}
}

func (x u128) sub(y u128) u128 {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	hi, _ := bits.Sub64(x.hi, y.hi, borrow)
	return u128{hi, lo}
}

func (x u128) cmp(y u128) int {
	switch {
	case x.hi < y.hi || (x.hi == y.hi && x.lo < y.lo):
		return -1
	case x == y:
		return 0
	default:
		return 1
	}
}

// divmod requires that the quotient fits 64 bits: x.hi < d.
func (x u128) divmod(d uint64) (q, r uint64) { return bits.Div64(x.hi, x.lo, d) }
