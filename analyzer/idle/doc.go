// Package idle finds held GPU time without work. In: rows of the ledger, one owner's time
// on one leaf in one UTC hour each, with the stretches in which no work was seen. Out:
// runs, exact to the slot.
//
// A run is a stretch of one owner's hold of one leaf with one grade: proven (bucket idle:
// at least two valid signals, all quiet) or suspected (the only valid signal was quiet). A
// slot with work, time that nobody observed, and the hold's end end a run. So does time
// without evidence, unless it is at most Bridge long and lies between two proven parts; it
// never counts as idle itself.
//
// Invariants: a run's slice-ms are the sum of its slots' slice-ms in the ledger. The runs
// of a series depend only on its hours, whatever the order in which series come; a series
// whose hours changed is forgotten and added again. Memory: one open run per series.
//
// A run is open if it reaches the end of what its cluster's ledger has counted, and released if the owner was seen not
// to hold the leaf in the next slot.
//
// What can go wrong: hours of a series out of order are refused with an error that names
// both.
package idle
