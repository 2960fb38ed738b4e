// Package rating turns usage into money: pure functions from usage rows and a price book to invoices and the
// platform's account (R7, R8, R17).
//
// Data in: rating rows, one per tenant, project, model, profile, bucket and UTC hour. Data out: per tenant eleven
// effects in a fixed order, lines that explain them, and a total rounded once. Invariants: C7a lines sum to the
// total, C7b tenants and platform together have the capacity's list value, C7c effects sum to the total, C7e
// distribution sums to zero per hour; each has a function here. Errors concern the input: a bucket of the wrong
// owner, contradictory slices, a model or an hour without a price.
package rating
