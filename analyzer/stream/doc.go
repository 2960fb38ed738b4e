// Package stream finds anomalies in one series of timestamps and values, as it grows. It
// never looks ahead, and has one set of constants for all series.
//
// Data in: points in order of time, at regular or irregular intervals. Data out: for each
// point a score from 0 to 1, and whether it begins an alarm.
//
// Four differences say how unusual a point is:
//   - to the median of the points at the same time of day in the last seven days;
//   - to the nearest of those points, within three steps before and after;
//   - of the pair (value, previous value) to the nearest earlier pair of the last seven days;
//   - of a fast mean (the last hour) to a slow one (the last two days).
//
// Each is compared with its own earlier values: its tail probability (package tail) gives
// −log p, and the sum of the four is the evidence. Past anomalies are part of those earlier
// values, so what recurs counts less. An alarm is a point whose evidence is above the
// threshold and the greatest of the last twelve hours.
//
// Invariants: the output for a point depends on the points up to it alone. Memory is
// bounded by seven days of points, at most 50,000, whatever the length of the series.
//
// What can go wrong: a timestamp that goes back, and a value that is not finite, are
// refused with the row's number. In the first day nothing is judged.
package stream
