package sim

import "fmt"

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a
// bijection that spreads neighbouring inputs over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// derive returns an independent seed for a seed and a number.
func derive(seed uint64, n int64) uint64 { return mix(seed ^ mix(uint64(n))) }

// deriveName returns an independent seed for a seed and a name (FNV-1a).
func deriveName(seed uint64, name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(seed ^ h)
}

// below is a number in [0, n); 0 if n is not positive.
func below(seed uint64, n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(seed>>1) % n
}

// uuidOf formats a seed as a version 4 UUID.
func uuidOf(seed uint64) string {
	a, b := seed, mix(seed)
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

// floorDiv divides towards minus infinity, so that times before 1970 have cycles of their own.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
