// Package offhours finds spikes: GPU time of a tenant, project or user in its off-hours
// that is far above what is usual for it at such times. In: the held and active time of
// every workload by UTC hour, and the hours of which the ledger observed enough. Out:
// episodes.
//
// An hour is an off-hour if no minute of it lies in a working window of the tenant's
// calendar. What is expected in an hour is what the same workloads have held without a
// pause since the last two working hours, plus the greatest of
//   - the 75 % quantile of the same hour of the week ± 1 over four weeks,
//   - the 75 % quantile of the same hour of the day ± 1 over the last seven days of the
//     same kind (with working time or without),
//   - between the start of work and three hours after its end, on any day: the most that
//     one known user holds now, up to what that user usually holds in working hours,
//
// the first two without what was carried over then. An hour is flagged if what it has
// beyond that is at least MinRise and has a probability of at most P among the off-hours
// of the last eight weeks (package tail); the hours after it up to HysteresisP. Flagged
// hours are an episode if their excess is at least MinGPUHours.
//
// Invariants: flagged hours enter the history as what was expected, so that abuse never
// becomes usual; those of episodes that are too small to report enter as they were. Hours
// that nobody observed enter not at all. A series of less than 14 days is judged by the
// differences of all tenants of its time, and its episodes are only suspected, as are those of time that was held
// without proof of work. A series whose references explain less than
// MinExplained of its variance has no rhythm, and is not judged.
package offhours
