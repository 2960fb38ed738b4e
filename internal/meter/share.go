package meter

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"math/big"
	"slices"
	"strconv"
)

// Share is an owner's part of a leaf at one instant: numerator << 16 | denominator; 0:
// none (R12).
type Share uint32

func makeShare(num, den int) Share {
	for d := gcd(num, den); d > 1; d = gcd(num, den) {
		num, den = num/d, den/d
	}
	return Share(num)<<16 | Share(den)
}

// Rat is the share as a fraction.
func (s Share) Rat() (num, den int64) { return int64(s >> 16), int64(s & 0xffff) }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fractions are exact amounts of several parties, grouped by denominator. With at most
// MaxHolders entries there are few denominators, while the denominator of their sum
// would grow without bound.
type fractions struct {
	parties int
	dens    []int64
	sums    [][]int64 // by denominator, then party
}

// class returns the amounts of all parties over one denominator, to be added to.
func (f *fractions) class(den int64) []int64 {
	i := slices.Index(f.dens, den)
	if i < 0 {
		i = len(f.dens)
		f.dens, f.sums = append(f.dens, den), append(f.sums, make([]int64, f.parties))
	}
	if n := len(f.sums[i]); n < f.parties {
		f.sums[i] = append(f.sums[i], make([]int64, f.parties-n)...)
	}
	return f.sums[i]
}

// common returns the least common denominator, and each party's amount over it.
func (f *fractions) common() (amounts []*big.Int, den *big.Int) {
	den = big.NewInt(1)
	for _, d := range f.dens {
		n := big.NewInt(d)
		den.Mul(den, n.Quo(n, new(big.Int).GCD(nil, nil, den, n)))
	}
	amounts = make([]*big.Int, f.parties)
	for i := range amounts {
		amounts[i] = new(big.Int)
	}
	var factor, n, product big.Int
	for c, d := range f.dens {
		factor.Quo(den, n.SetInt64(d))
		for i, v := range f.sums[c] {
			if v != 0 {
				amounts[i].Add(amounts[i], product.Mul(&factor, n.SetInt64(v)))
			}
		}
	}
	return amounts, den
}

// ceiling is the sum of all amounts, rounded up to an integer: the unheld part of the
// last unit takes part in the largest-remainder step.
func (f *fractions) ceiling() int64 {
	amounts, den := f.common()
	sum := new(big.Int).Sub(den, big.NewInt(1))
	for _, a := range amounts {
		sum.Add(sum, a)
	}
	return sum.Quo(sum, den).Int64()
}

// apportion divides total, in integers, into the parties' amounts and the rest, which
// is free. Each amount is rounded down, the units left go to the largest remainders;
// of equal ones to the smallest SHA-256 of "slot start in ms/owner id", free last
// (R12).
func (f *fractions) apportion(slotStartMS, total int64, ids []string) (got []int64, free int64) {
	amounts, den := f.common()
	rest := new(big.Int).Mul(big.NewInt(total), den)
	for _, a := range amounts {
		rest.Sub(rest, a)
	}
	amounts = append(amounts, rest)
	got, left := make([]int64, len(amounts)), total
	var floor big.Int
	for i, a := range amounts {
		floor.QuoRem(a, den, a) // a keeps the remainder
		got[i] = floor.Int64()
		left -= got[i]
	}
	last := len(ids)
	for _, i := range largest(slotStartMS, left,
		append(slices.Clip(ids), ""), func(i int) bool { return i == last }, func(x, y int) int {
			return amounts[x].Cmp(amounts[y])
		}) {
		got[i]++
	}
	return got[:last], got[last]
}

// largest returns the parties with the largest remainders, as many as there are units
// left. Of equal remainders the smaller hash goes first, the platform last.
func largest(slotStartMS, left int64, ids []string, platform func(i int) bool, remainder func(x, y int) int) []int {
	if left == 0 {
		return nil
	}
	order, hashes := make([]int, len(ids)), make([][]byte, len(ids))
	for i := range order {
		order[i] = i
	}
	hash := func(i int) []byte {
		if hashes[i] == nil {
			sum := sha256.Sum256([]byte(strconv.FormatInt(slotStartMS, 10) + "/" + ids[i]))
			hashes[i] = sum[:]
		}
		return hashes[i]
	}
	slices.SortFunc(order, func(x, y int) int {
		if c := remainder(y, x); c != 0 {
			return c
		}
		switch px, py := platform(x), platform(y); {
		case px && !py:
			return 1
		case py && !px:
			return -1
		}
		return cmp.Or(bytes.Compare(hash(x), hash(y)), cmp.Compare(ids[x], ids[y]), x-y)
	})
	return order[:left]
}
