// Package offhours finds spikes: work of a tenant in its off-hours that is far above
// its usual amount at such times. In: the tenant's active time by UTC hour, and the
// hours of which the ledger observed enough. Out: episodes.
//
// An hour is an off-hour if no minute of it lies in a working window of the tenant's
// calendar. The baseline is the tenant's own off-hours in the History before the
// episode. An hour spikes if its active GPU-hours exceed median + MADs × 1.4826 × MAD,
// and are at least MinRatio times, and MinGPUHours above, the usual amount: the
// greatest of the median, the HabitQuantile and the work carried over from working
// hours. The quantile excludes habits (a nightly job of two hours is 13 % of the
// off-hours, and the median doesn't reflect it). Carried-over work has not paused
// since the last working hour: a training run that was started at noon and goes on
// through the night was decided on during the day. A tenant that works round the clock
// has a high median, so work at night is never flagged.
// working at night.
//
// Consecutive spiking hours are one episode with one baseline, which excludes the
// episode's own hours. Waste is the time above the median or the carried-over work,
// whichever is greater. A tenant that has been known for less than MinHistory is not
// judged. Hours that the ledger could not observe are no evidence of rest, and are
// left out of the baseline.
package offhours
