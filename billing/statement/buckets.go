package statement

import "github.com/shopspring/decimal"

// bucket is one of the seven buckets with its texts. Name is also the class of its colour.
type bucket struct{ Name, Title, Meaning string }

var allBuckets = []bucket{
	{"active", "Active", "held, with evidence of work"},
	{idle, "Idle", "held, with evidence of no work: this is waste"},
	{"unproven", "Unproven", "held, evidence missing or contradictory; never called idle"},
	{"free", "Free", "observed and not held"},
	{"stranded", "Stranded", "slices that no MIG instance covers"},
	{"unhealthy", "Unhealthy", "GPU lost, or flagged and not at work; no tenant pays"},
	{"unobserved", "Unobserved", "nothing is known of this time; no tenant pays"},
}

var heldBuckets, platformBuckets = allBuckets[:3], allBuckets[3:]

// idle is the name of the bucket that is waste.
const idle = "idle"

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

// Of are the hours of a bucket.
func (h hours) Of(name string) decimal.Decimal {
	for i := range allBuckets {
		if allBuckets[i].Name == name {
			return h.by[i]
		}
	}
	return decimal.Zero
}

func (h hours) sum(buckets []bucket) decimal.Decimal {
	total := decimal.Zero
	for _, b := range buckets {
		total = total.Add(h.Of(b.Name))
	}
	return total
}

// Held are the hours of the owner's buckets.
func (h hours) Held() decimal.Decimal { return h.sum(heldBuckets) }

// All are the hours of all seven buckets.
func (h hours) All() decimal.Decimal { return h.sum(allBuckets) }
