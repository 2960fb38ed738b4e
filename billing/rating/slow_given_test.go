package rating

import (
	"math/big"
	"slices"
	"time"
)

// given is what each tenant gets of an hour's platform time; nil where nobody
// gets any.
func (s *slowModel) given(hour time.Time) map[string]*big.Rat {
	at := s.version(hour)
	if at < 0 || !s.book.Versions[at].Proportional {
		return nil
	}
	pool, total := zero(), zero()
	claims := map[string]*big.Rat{}
	for _, row := range s.hourly[hour] {
		if row.Bucket == "free" || row.Bucket == "stranded" {
			pool = plus(pool, s.list(row))
		}
		if row.Tenant != "" {
			addTo(claims, row.Tenant, s.list(row))
			total = plus(total, s.list(row))
		}
	}
	if rounded := nearest(pool, 9); rounded.Cmp(pool) != 0 {
		s.note("a pool rounded to nine places")
		pool = rounded
	}
	switch {
	case pool.Sign() == 0:
		return nil
	case total.Sign() == 0:
		s.note("a pool without owners")
		return nil
	}
	return s.divide(pool, total, claims)
}

var nano = rat(1, 1_000_000_000)

// divide gives whole units of 1e-9 by largest remainder, ties by name.
func (s *slowModel) divide(pool, total *big.Rat, claims map[string]*big.Rat) map[string]*big.Rat {
	given, missing, left := map[string]*big.Rat{}, map[string]*big.Rat{}, pool
	var tenants []string
	for tenant, claim := range claims {
		exact := new(big.Rat).Quo(times(pool, claim), total)
		units := new(big.Rat).Quo(exact, nano)
		given[tenant] = times(new(big.Rat).SetInt(new(big.Int).Div(units.Num(), units.Denom())), nano)
		missing[tenant] = minus(exact, given[tenant])
		left = minus(left, given[tenant])
		tenants = append(tenants, tenant)
	}
	slices.Sort(tenants)
	for left.Sign() > 0 {
		best, tied := "", false
		for _, tenant := range tenants {
			switch {
			case missing[tenant] == nil:
			case best == "" || missing[tenant].Cmp(missing[best]) > 0:
				best, tied = tenant, false
			case missing[tenant].Cmp(missing[best]) == 0:
				tied = true
			}
		}
		given[best] = plus(given[best], nano)
		missing[best] = nil
		if left = minus(left, nano); left.Sign() == 0 && tied {
			s.note("a tie of distribution told by names")
		}
	}
	return given
}
