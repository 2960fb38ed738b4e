// Package focuscheck checks files against FOCUS, the FinOps Open Cost and Usage
// Specification, 1.2 and 1.4.
//
// Data in: a CSV file and, where known, what its invoices come to. Data out:
// each rule that a line breaks, with line, column and value. Rules carry the
// ids of FOCUS 1.2's requirements model, so that they can be looked up there;
// what 1.4 adds says so. All requirements are here that a file shows for
// itself and that concern columns of an export such as ours; left out are
// those on what lies outside of it (whether a price list is published), and
// those on commitment discounts and other pricing currencies.
//
// A cell that breaks a rule by itself (null, format, allowed value) is not
// looked at by rules across columns: one mistake is one violation.
//
// Invariants: a line is checked as it is read; memory depends on the number of
// invoices, SKUs and services. What can go wrong: a file that isn't CSV, which
// is an error and no violation.
package focuscheck
