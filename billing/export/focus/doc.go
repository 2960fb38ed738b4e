// Package focus writes bills as FOCUS, the FinOps Open Cost and Usage
// Specification, versions 1.2 and 1.4.
//
// Data in: bills, each with its charges as rating made them. Data out: CSV, a
// row per UTC day, project, model, profile, bucket and unit price of what
// arises hour by hour, a row per month of what doesn't; and metadata that
// describes the columns.
//
// What a row is: held time is Usage, at its list price, and at the contracted
// price, which is the list price less the tenant's percentage discount. A
// profile with a price of its own is priced in Instance-Hours, all else in
// GPU-Hours. Tiers, idle surcharge, distribution, minimum and rounding are
// Adjustments, a fixed discount is a Credit, energy is Usage in
// Kilowatt-Hours, a reservation not used is Usage of nothing consumed. What
// the platform kept is Usage of the sub account "platform-unallocated" that
// costs nothing. Notes are Corrections: rows of differences, in the month they
// are billed in, with charge periods of when they arose.
//
// Invariants: BilledCost sums to each bill's total, exactly, or there is no
// file; a file breaks no rule that focuscheck knows; costs are exactly unit
// price × quantity; x_WholeGPUListCost sums to the list value of tenants and
// platform, with what rounding quantities left to capacity (C7b).
//
// BillingPeriod is the month in the price book's zone, one for a file. A
// tenant with a zone of its own has a month that begins at another instant:
// its charge periods, which are true instants, may lie up to a day outside of
// the billing period. FOCUS bounds charges by ChargePeriod alone and asks for
// no containment, and a billing period of each tenant's own would tear the
// month apart in every report that groups by it.
//
// What can go wrong: charges that don't sum to their bill, bills of two
// billing periods, the disk.
package focus
