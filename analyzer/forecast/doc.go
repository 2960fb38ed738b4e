// Package forecast says how much of something, such as GPU-hours or money, a tenant will use
// in the hours ahead, such as those to the end of the month, and how wrong such forecasts
// were so far.
//
// Data in: hourly amounts of 0 or more, oldest first, at least four weeks; NaN is an hour that
// nobody observed. Data out: an amount for each 24 hours ahead and for all of them together,
// each with an interval that should hold 80 % and one that should hold 95 % of what comes.
//
// Four methods are tried, with several parameters: the same day of the last week (seasonal
// naive); simple exponential smoothing; exponential smoothing with a damped trend, both of
// the logarithms of the days without their weekly pattern; and the median of the same hour of
// the week over four weeks. Each forecasts from every past day, knowing only the days before
// it (rolling origins: Hyndman and Athanasopoulos, "Forecasting: Principles and Practice",
// 3rd edition, sections 5.10, 8.1 and 8.2). The forecast is their mean (section 13.4), in
// which a method weighs more the smaller its mean absolute error was; a method that was a
// third worse than the best has a tenth of its weight.
//
// The intervals are conformal: quantiles of the errors at the same distance from those
// origins, as parts of the amount, which assume nothing of their distribution. A total over
// more days than half of the origins has the errors of totals over so many, in proportion.
//
// Invariants: the result depends on nothing but the arguments; a constant series forecasts
// itself; amounts times a factor give a forecast times that factor. What is said of a past
// day's forecast, weights and interval included, comes from the days before that day.
//
// What can go wrong: with less than four observed weeks there is ErrTooShort and no guess.
// Steps that nobody could know of are in no interval: the longer a forecast, the more often
// its interval fails a tenant that changes (docs/reference/forecast.md has the figures).
package forecast
