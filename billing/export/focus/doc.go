// Package focus writes bills as FOCUS, the FinOps Open Cost and Usage Specification, versions 1.2 and 1.4.
//
// Data in: bills, each with its charges from rating. Data out: CSV, for hourly charges a row per UTC day, project,
// model, profile, bucket and unit price, for others a row per month; and metadata that describes the columns.
//
// Mapping: held time is Usage, at its list price, and at the contracted price, which is the list price less the
// tenant's percentage discount. A profile with a price of its own is priced in Instance-Hours, all else in GPU-Hours.
// Tiers, idle surcharge, distribution, minimum and rounding are Adjustments, a fixed discount is a Credit, energy is
// Usage in Kilowatt-Hours, an unused reservation is Usage with nothing consumed. The platform's time is Usage of the
// sub account "platform-unallocated" that costs nothing. Notes are Corrections: rows of differences, in the month
// they are billed in, with the charge periods of the charges.
//
// Invariants: BilledCost sums exactly to each bill's total, or there is no file; a file violates no rule that
// focuscheck checks; costs are exactly unit price × quantity; x_WholeGPUListCost sums to the list value of tenants
// and platform, plus the rounding of quantities (C7b).
//
// BillingPeriod is the month in the price book's zone, one per file. The month of a tenant with a zone of its own
// begins at another instant: its charge periods may be up to a day outside the billing period. FOCUS bounds charges
// only by ChargePeriod and doesn't require containment, and a separate billing period per tenant would split the
// month in every report that groups by it.
//
// Errors: charges that don't sum to their bill, bills of two billing periods, the disk.
package focus
