// Package statement serves the pages of a month: a statement per tenant, a page of the whole fleet for the platform
// team, and an index of the months.
//
// Data in: invoices and notes (Invoices), and usage_hourly and anomalies of the store. Data out: self-contained HTML
// pages: no script, nothing loaded from elsewhere, one style sheet in the page whose hash is in the
// Content-Security-Policy; they print on A4, and follow the reader's light or dark scheme. Invariants: amounts are
// the documents' own, only rounded for display; names are shown as text whatever they contain; every chart has a
// table beside it; an answer is complete or an error page. Errors: an unknown month or tenant (404), usage without a
// price (409, with the models), an unavailable store (503), all others (500, only logged).
package statement
