// Package analyzer reads the ledger (view usage) and writes episodes of wasted or
// unusual GPU time to table anomalies and to metrics. It measures nothing and changes
// no bill.
//
// Invariants: Find depends only on the ledger, the configuration, the rates, and the
// alerts that were published. A service remembers what it read: it finds the same, spikes
// at most an hour later and idle time in hours older than 96 at most six hours. An
// episode is always found as a whole, so its id and figures don't depend on the
// requested range. After Publish the table contains exactly the episodes found for the
// range; episodes that don't exist any more are marked as deleted. If the ledger is
// unavailable or incomplete, the run is delayed and counted; the table is never
// emptied.
package analyzer
