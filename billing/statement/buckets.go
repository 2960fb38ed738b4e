package statement

import "github.com/shopspring/decimal"

// bucket is one of the seven, as pages show it. Name is also the class of its
// colour.
type bucket struct{ Name, Title, Meaning string }

var (
	active     = bucket{"active", "Active", "held, with evidence of work"}
	idle       = bucket{"idle", "Idle", "held, with evidence of no work: this is waste"}
	unproven   = bucket{"unproven", "Unproven", "held, evidence missing or contradictory; never called idle"}
	free       = bucket{"free", "Free", "seen, and held by nobody"}
	stranded   = bucket{"stranded", "Stranded", "slices that no MIG instance covers"}
	unhealthy  = bucket{"unhealthy", "Unhealthy", "lost, or flagged and not working; no tenant pays"}
	unobserved = bucket{"unobserved", "Unobserved", "nobody could see it; no tenant pays"}
)

var (
	heldBuckets     = []bucket{active, idle, unproven}
	platformBuckets = []bucket{free, stranded, unhealthy, unobserved}
	allBuckets      = []bucket{active, idle, unproven, free, stranded, unhealthy, unobserved}
)

// hours are GPU-hours by bucket, and the energy of that time in millijoules.
type hours struct {
	by       [7]decimal.Decimal // in the order of allBuckets
	energyMJ decimal.Decimal
}

func (h *hours) add(other hours) {
	for i := range h.by {
		h.by[i] = h.by[i].Add(other.by[i])
	}
	h.energyMJ = h.energyMJ.Add(other.energyMJ)
}

func (h hours) of(b bucket) decimal.Decimal {
	for i := range allBuckets {
		if allBuckets[i].Name == b.Name {
			return h.by[i]
		}
	}
	return decimal.Zero
}

func (h hours) sum(buckets []bucket) decimal.Decimal {
	total := decimal.Zero
	for _, b := range buckets {
		total = total.Add(h.of(b))
	}
	return total
}

func (h hours) held() decimal.Decimal { return h.sum(heldBuckets) }

func (h hours) all() decimal.Decimal { return h.sum(allBuckets) }
