// Package meter holds the rules of metering as pure functions.
//
// Classify turns one batch into rows: who held each leaf, and which bucket its time
// belongs to (R4, R9, R12, R13, R16 within the slot).
// Hour turns the rows, the winning batches and what was known before into
// one record per GPU and hour (R2, R3, R10, R14): the seven buckets of an hour
// always sum to slices × present_ms.
//
// All amounts are integers: slice-milliseconds and millijoules. Shares are
// exact rationals until one largest-remainder step per (leaf, slot).
package meter

// RulesVersion counts up whenever a rule changes what a batch or an hour means, so that
// hours are recomputed; not for a new reason of the same bucket.
const RulesVersion = 3

// Times of the rules.
const (
	HourMS = 3_600_000
	// GapMaxMS is the longest gap that is inferred (R10).
	GapMaxMS = 30_000
	// RetireAfterMS is how long a silent GPU stays in the inventory (R2): its presence
	// ends then (presence.go), and Hour forgets it.
	RetireAfterMS = 24 * HourMS
)

// MJPerKWh is millijoules per kilowatt-hour.
const MJPerKWh = 3_600_000_000
