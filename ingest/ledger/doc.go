// Package ledger keeps usage_hourly: one row per GPU and hour whose seven
// buckets always sum to slices × present_ms.
//
// In: the journal (batches), raw (holds), the dictionaries and the tenant
// mapping. Out: sightings and usage_hourly, each hour of a cluster replaced in
// one insert (R5).
//
// An hour is dirty when its row rests on fewer journal rows than there are, on
// an older watermark, or on an older epoch of rules and mapping: derived at
// every pass, never remembered. Hours are recomputed in ascending order, since
// each depends on the sightings of the day before it. A recomputation that
// finds fewer raw rows than the journal promised is refused and reported (R3).
package ledger
