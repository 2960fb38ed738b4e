// Package tail estimates how improbable a value is, from values seen before.
//
// Data in: a sample of residuals (observed minus expected), in any order. Data out: the
// probability of a value that is at least as great.
//
// Up to the sample's 95 % quantile the probability is the share of the sample that is as
// great; above it a generalised Pareto distribution is fitted to the excesses (peaks over
// threshold: Siffer et al., "Anomaly Detection in Streams with Extreme Value Theory", KDD
// 2017). Its parameters are the moment estimates of Hosking and Wallis (Technometrics
// 29(3), 1987): with mean m and variance s² of the excesses, shape ½(1 − m²/s²) and scale
// ½m(m²/s² + 1).
//
// Invariants: the probability never increases with the value, is never 0, and depends
// only on the sample. A shape below 0, which would put an upper end on what is possible,
// counts as 0: that nothing greater was seen yet doesn't make it impossible. A shape above
// ½ has no variance, and counts as ½. A sample without excesses, such as one of zeros
// only, has an exponential tail of the least scale.
package tail
