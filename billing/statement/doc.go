// Package statement serves what people read of a month: a statement per tenant,
// a page of the whole fleet for those who run it, and an index of the months.
//
// Data in: invoices and notes (Invoices), and usage_hourly and anomalies of the
// store. Data out: HTML pages that stand alone: no script, nothing loaded from
// elsewhere, one style sheet in the page whose hash the Content-Security-Policy
// names; they print on A4, and follow the reader's light or dark scheme.
// Invariants: amounts are the documents' own, only rounded to be shown; names
// are text whatever they contain; every chart has a table beside it; an answer
// is whole or it is a page of what went wrong. What can go wrong: a month or a
// tenant that nobody knows (404), usage without a price (409, with the models),
// a store that is away (503), all else (500, told in the log only).
package statement
