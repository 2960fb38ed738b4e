// Package forecast says how many GPU-hours, or how much money, a tenant will use up to a
// day ahead, such as the end of the month, and how wrong it was so far.
//
// Data in: the amounts of whole days and their hours, oldest first, at least three weeks.
// Data out: an amount for each day ahead, the total, and 80 % and 95 % intervals of both.
//
// Four methods compete: the same day of the last week (seasonal naive); simple exponential
// smoothing; exponential smoothing with a damped trend, both of the amounts without their
// weekly pattern; and the median of the same hour of the week over four weeks. The one with
// the smallest mean absolute error over the last four weeks of rolling origins is taken
// (Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, sections
// 5.10, 8.1 and 8.2), each origin knowing only the days before it.
//
// The intervals are conformal: quantiles of the chosen method's own errors at the same
// distance from those origins, which assume nothing of their distribution.
//
// What can go wrong: with less than three weeks there is an error, and no guess.
package forecast
