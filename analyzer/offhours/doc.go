// Package offhours finds spikes: a tenant's work in its off-hours far above
// what it does at such times. The tenant's active time per UTC hour goes in,
// with the hours in which the ledger saw enough; episodes come out.
//
// An hour is off-hours when no minute of it lies in a working window of the
// tenant's calendar. The baseline is the tenant's own off-hours in the History
// before the episode. An hour spikes when its active GPU-hours exceed
// median + MADs × 1.4826 × MAD, and are at least MinRatio times, and MinGPUHours
// above, what is usual: the greatest of the median, the HabitQuantile and the
// work carried over from working hours. The quantile leaves habits alone (a
// nightly job of two hours is 13 % of the off-hours, and the median can't see
// it); the carried-over work is what never paused since the last working hour:
// a training run started at noon that goes on through the night was decided by
// day. Whoever works round the clock has a high median and is never flagged for
// working at night.
//
// Spiking hours in a row are one episode with one baseline, its own hours never
// in it. Waste is the time above the median or the carried-over work, whichever
// is more. A tenant seen for less than MinHistory gets no verdict. Hours that
// the ledger could not see are no evidence of rest and stay out of the baseline.
package offhours
