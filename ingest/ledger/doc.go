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
//
// Raw goes a week at a time, when ledger.raw_retention has passed and every hour
// that rests on it is closed, clean and covered; its hours are never recomputed
// after, and are stale where they would come out otherwise (docs/decisions/0004).
// The retirement of a GPU is an input of its hour and of the day after it (R2).
//
// Memory: hours are read together up to ledger.max_rows_in_memory rows of raw
// and journal, as the journal counts them before anything is read; the GPUs of
// a larger hour are split by a hash of their ids, each part read and computed by
// itself, their results published together. Any bound gives the same rows.
// A row of raw costs about 270 bytes at the peak, garbage included; so does
// what stays outside the bound: one (node, slot) of the hours at hand, and the
// results, a GPU-hour each. Measured, an hour of 4,000 GPUs on 500 nodes in
// slots of ten seconds (1,440,000 rows of raw, 180,000 of the journal) peaks at
// 395 MB when held at once, at 145 MB with 400,000 rows, at 72 MB with 100,000
// (BenchmarkPeakHeap).
package ledger
