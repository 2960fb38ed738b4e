// Package analyzer reads the ledger (view usage) and writes episodes of wasted
// or unusual GPU time to the table anomalies and to metrics; it measures
// nothing and changes no bill.
//
// Invariants: Find depends on the ledger, the configuration and the rates only;
// an episode is always found whole, so its id and figures don't depend on the
// range asked for; after Publish the table says, for the range, exactly what
// was found: episodes that are no longer true are marked deleted. A ledger that
// is away or incomplete delays a run and is counted; it never empties the table.
package analyzer
