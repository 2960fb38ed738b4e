// Package prometheus is a source that reads the history of dcgm-exporters from a Prometheus, or another server with
// its HTTP API (Thanos, Mimir, VictoriaMetrics): raw samples in, one batch of facts per node and slot out, by the
// rules of package exporter.
//
// Queries: query_range would repeat a series' last value for five minutes and hide when it ended. Instead, instant
// queries with a range selector, `{__name__=~"…"}[600s]`, return the stored samples themselves with the times at
// which they were scraped, each sample once. The length of a window is planned from the previous one so that its
// answer stays below PointsPerQuery and BodyLimitBytes, and halved if the answer is too large for the server or this
// program.
//
// Invariants:
//   - A sample counts only for the slot in which it was scraped. A slot in which a node has no sample has no batch:
//     it is unobserved.
//   - Of the scrapes of one exporter in a slot only the last counts, as in a live scrape: series that ended before
//     it, such as those of an earlier pod on the GPU, are ignored.
//   - An exporter is identified by its Prometheus job and its node, so that its pod's address may change; if two
//     addresses report a GPU in one slot the later one counts.
//   - Counters, XIDs and MIG are read from LeadIn before the first slot on, so that the energy of the first slot is
//     known if there is history before it.
//   - Owners are read as in package exporter. Whether Prometheus renamed a job's labels to exported_… is determined
//     for the whole time that is read: import history before and after a change of honor_labels separately.
//   - All or nothing: an error, or an answer that is partial, truncated or has warnings, is a QueryError with status,
//     content type, length and position, but no text of the answer; redirects are not followed.
//
// Errors: Prometheus is unavailable or overloaded (retried, then a QueryError with URL, query and window); its scrape
// interval is longer than the slot (IntervalError, before any batch); GPUs with contradictory data (left out and
// named in the error, beside the batches).
package prometheus
