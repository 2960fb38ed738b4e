// Package ledger maintains usage_hourly: one row per GPU and hour, whose seven buckets
// always sum to slices × present_ms.
//
// In: the journal (batches), raw (holds), the dictionaries and the tenant
// mapping. Out: sightings and usage_hourly, each hour of a cluster replaced in
// one insert (R5).
//
// An hour is dirty if its row was computed from fewer journal rows than exist now,
// with an older watermark, or under an older epoch of rules and tenant mapping. That
// is derived in every pass and never stored. Hours are recomputed in ascending order,
// because each depends on the sightings of the day before it. If raw has fewer rows
// than the journal says, the recomputation is refused and reported (R3).
//
// Raw is dropped a week at a time, once ledger.raw_retention has passed and every hour
// that depends on it is closed, clean and complete. Those hours are never recomputed;
// they are stale if a recomputation would give another result (docs/decisions/0004).
// The retirement of a GPU is an input of its hour and of the day after it (R2).
//
// Memory: hours are computed together up to ledger.max_rows_in_memory rows of raw and
// journal, as counted by the journal before anything is read. The GPUs of a larger
// hour are split by a hash of their ids; each part is read and computed separately,
// and their results are published together. The bound never changes the result. A raw
// row takes about 270 bytes at the peak, garbage included. Outside the bound are one
// record per (node, slot) of the hours being computed, and the results, one per
// GPU-hour. Measured (BenchmarkPeakHeap): an hour of 4,000 GPUs on 500 nodes in slots
// of ten seconds (1,440,000 raw rows, 180,000 journal rows) peaks at 395 MB when
// computed at once, at 145 MB with 400,000 rows, at 72 MB with 100,000.
package ledger
