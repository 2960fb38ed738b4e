// Package stream finds anomalies in one series of timestamps and values while it grows. It
// never looks ahead, and has one set of constants for all series.
//
// Data in: points in order of time, at regular or irregular intervals. Data out: for each
// point a score from 0 to below 1, and whether it is an alarm. Detect does that for a CSV.
//
// Ten measures (the table in stream.go) say how unusual a point is: its value, its
// differences to the previous value, to the nearest earlier pair and course, and to the
// same time of day over seven days; a fast mean against a slow one; the mean difference of
// neighbours. Each measure is compared with its own last 2,048 values: its tail
// probability p (package tail) gives a surprise of −log p. The surprises, weighted, are
// added as powers of 1.5, which lies between their sum and the greatest alone; the root of
// that is the point's evidence. Anomalies become part of what the next point is compared
// with, and evidence that a time of day had on two of the last seven days is subtracted,
// so what recurs counts less. Only the highest evidence of the last twelve hours scores;
// the score is 1 − 2^(−evidence / 15.6), and an alarm from 0.5 on.
//
// Invariants: a result depends on the points up to it alone, and neither on the unit of
// the values nor on anything but the points. The state is bounded whatever the length of
// the series: at most about 5,040 kept points of seven days, 2,048 values per measure, a
// peak per minute of twelve hours.
//
// What can go wrong: the first 256 points score 0. A timestamp that goes back by up to a
// day, as at a change of clock, counts as the latest one; by more, it is refused. A value
// that is not finite or beyond ±1e150 is refused. Where points are closer than two minutes,
// only one in two minutes is kept to compare with. Without a rhythm of a day, its two measures
// say little; a rhythm of a week needs a week until it is known.
package stream
