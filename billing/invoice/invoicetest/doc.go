// Package invoicetest opens registers of invoices for tests, on a real embedded
// broker. Data in: a store and a price book. Data out: a register; the test sets its
// closed hours and clock.
package invoicetest
