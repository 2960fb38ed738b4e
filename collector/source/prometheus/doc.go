// Package prometheus is a source that reads the history of dcgm-exporters out of
// a Prometheus, or whatever answers its HTTP API (Thanos, Mimir,
// VictoriaMetrics): raw samples in, one batch of facts per node and slot out,
// by package exporter's own rules.
//
// How it reads. Not by query_range: that repeats a series' last value for five
// minutes and hides when it ended. It asks instant queries with a range selector,
// `{__name__=~"…"}[600s]`, whose answers are the stored samples themselves with
// the times at which they were scraped, each sample once. A window is as long as
// its answer stays below PointsPerQuery and BodyLimitBytes: it is measured by
// the window before, and halved where the answer is too large for either side.
//
// Invariants:
//   - A sample counts for the slot in which it was scraped, and no other. A slot
//     in which a node has no sample has no batch: nobody saw it.
//   - Of the scrapes of one exporter in a slot only the last counts, as if it had
//     been scraped then: series that ended before it, such as those of the pod
//     that held the GPU first, are no part of it.
//   - An exporter is a Prometheus job on a node. That its pod got another address
//     changes nothing; where both showed a GPU in one slot the later one counts.
//   - Counters, XIDs and MIG are followed from LeadIn before the first slot, so
//     that a window's first slot knows its energy where there is history before
//     it.
//   - Owners are read as package exporter does. Whether Prometheus renamed a job's
//     labels to exported_… is decided for the whole time that is read: history
//     from before and after a change of honor_labels is two imports.
//   - All or nothing: an answer that is an error, partial, cut off or carries
//     warnings is none (QueryError). Its error says status, content type, length
//     and place, and nothing that the answer says; redirects are not followed.
//
// What can go wrong: Prometheus is away or overloaded (asked again, then a
// QueryError with URL, query and window), its scrape interval is longer than the
// slot (IntervalError, before anything else), GPUs that can't be believed (left
// out and named in the error beside the batches).
package prometheus
