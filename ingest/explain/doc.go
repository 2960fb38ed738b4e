// Package explain answers "why so much?" for one GPU and one hour.
//
// Data in: the ledger's row of the hour, and the raw that it rests on: the
// journal, holds, samples, leaves, owners, events and sightings. Data out: an
// Explanation, which takes the row's figures apart into lines (from when to
// when, how many slots, which bucket, by which rule and on which evidence) and
// names the batches behind them.
//
// Nothing is metered a second time: what a slot adds to the hour is the
// difference of two results of meter.Hour, with the watermark before and after
// the slot. The rows that a line shows must sum to that difference, and all
// lines to the stored row, figure by figure and owner by owner; Proof says
// whether they do.
//
// What can go wrong: raw may be gone (figures only, Raw says so) or damaged, the
// row may be older than the journal (Proof says so), and some facts are not
// kept at all, such as a batch's idle watts or the instants of holds inside a
// slot: they are deduced where one answer only is possible, else called "not
// kept".
package explain
