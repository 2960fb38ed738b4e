// Package month says what each tenant will have used, and spent at list price, by the end of
// its month, with the forecasts of package forecast.
//
// Data in: GPU-hours by tenant, cluster, model and UTC hour; which hours of a cluster were
// observed; list prices; the zones of the tenants' months. Data out: for GPU-hours and for
// spend what was used so far, and the amount at the month's end with its intervals.
//
// A UTC hour belongs to the month of the tenant's zone in which it begins, as on invoices. An
// hour in which one of the tenant's clusters was not observed is missing, and never 0. A
// tenant's history begins with its first use. The history of spend is priced at the mean list
// price of the hours ahead, so that a new price is no growth; what was spent so far is priced
// hour by hour.
//
// Invariants: tenants don't depend on each other. Nothing is forecast of a month that is
// over. Figures are floats, for a forecast is an estimate; exact ones are in the ledger and
// on invoices.
//
// What can go wrong: with too short a history, or with time of a model without a list price,
// there is no forecast, and Why has the reason.
package month
