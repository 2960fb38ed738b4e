package meter

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"math/big"
	"slices"
	"strconv"
)

// Share is an owner's part of a leaf at one instant, numerator << 16 |
// denominator; 0 is none (R12).
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

// part is one claimant of a largest-remainder step: an exact amount, and what
// decides ties.
type part struct {
	amount *big.Rat
	id     string // owner id
	last   bool   // the platform: loses every tie
}

// apportion splits total, the sum of the exact amounts, into integers: floors
// first, what is left to the largest remainders, ties to the smallest SHA-256
// of "slot start in ms/owner id", the platform last (R12).
func apportion(slotStartMS int64, total int64, parts []part) []int64 {
	out := make([]int64, len(parts))
	rest := make([]*big.Rat, len(parts))
	left := total
	for i, p := range parts {
		floor := new(big.Int).Quo(p.amount.Num(), p.amount.Denom())
		out[i] = floor.Int64()
		rest[i] = new(big.Rat).Sub(p.amount, new(big.Rat).SetInt(floor))
		left -= out[i]
	}
	if left == 0 {
		return out
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		if c := rest[y].Cmp(rest[x]); c != 0 {
			return c
		}
		return tie(slotStartMS, parts[x], parts[y])
	})
	for i := int64(0); i < left; i++ {
		out[order[i]]++
	}
	return out
}

func tie(slotStartMS int64, x, y part) int {
	if x.last != y.last {
		if x.last {
			return 1
		}
		return -1
	}
	return cmp.Or(bytes.Compare(tieHash(slotStartMS, x.id), tieHash(slotStartMS, y.id)), cmp.Compare(x.id, y.id))
}

func tieHash(slotStartMS int64, id string) []byte {
	sum := sha256.Sum256([]byte(strconv.FormatInt(slotStartMS, 10) + "/" + id))
	return sum[:]
}
