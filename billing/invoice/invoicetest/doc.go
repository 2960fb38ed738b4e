// Package invoicetest opens registers of invoices for tests, on a real embedded
// broker. Data in: a store and a price book. Data out: a register whose closed
// hours and clock the test sets.
package invoicetest
