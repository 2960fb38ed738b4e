// Package tenants maps the facts about an owner to a tenant and a project, by hour (R15).
//
// Data in: tenants.yaml, effective-dated versions of rules, and meter.Owner. Data out: names. Raw data contains the
// facts; the ledger maps them when it computes an hour, the collector when it exposes metrics, with the same result.
//
// Invariants: a version is in force from a full UTC hour on; the first of its rules that matches decides; an owner
// that matches no rule belongs to Unassigned. A Mapping doesn't change after it was loaded, and is safe for
// concurrent use.
//
// Errors: a file that can't be read, an unknown key, a version that is repeated or inside an hour, a rule without a
// tenant, or an invalid pattern. Errors have the file and the place.
package tenants
