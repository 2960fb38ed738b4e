// Package export writes the monthly chargeback CSV, a summary of all invoices of a month for a spreadsheet or another
// system.
//
// Data in: a drafted month. Data out: one file, RFC 4180, a row per invoice line. Invariants: the amounts of a
// tenant's rows sum exactly to its invoice's total; no text can be taken for a formula; the file is written
// completely or not at all. Errors: the disk.
package export
