// Package device finds what is wrong with telemetry and devices: nodes that nobody observed, errors of GPUs, work that
// nobody holds, and held time whose signals prove nothing. Its findings have grade None: no tenant, no wasted time, no
// cost. Its functions are pure: rows of the ledger, of tables events and holds in, episodes out.
//
// Invariants: nodes of a cluster that fell silent together are one finding, whose children are the nodes'. A GPU's
// errors are one finding as long as they follow each other; several copies of an error count once. An error of users'
// programs is listed in the finding of the GPU that failed, if the same workload held both. The result depends on the
// rows alone, not on their order.
//
// What can go wrong: rows that don't reach back to a finding's start make it begin later, with another id.
package device
