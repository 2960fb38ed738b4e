// Package rating turns usage into money: pure functions from usage rows and a
// price book to invoices and the platform's account (R7, R8, R17).
//
// Data in: rating rows, one per tenant, project, model, profile, bucket and
// UTC hour. Data out: per tenant eleven effects in their fixed order, lines
// that explain them, and a total rounded once. Invariants: C7a lines sum to
// the total, C7b tenants and platform together are worth the capacity, C7c
// effects sum to the total, C7e distribution sums to zero per hour; each has a
// function here. What can go wrong is the input: a bucket on the wrong side,
// slices that contradict each other, a model or an hour without a price.
package rating
