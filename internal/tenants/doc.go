// Package tenants maps the facts about an owner to a tenant and a project, by
// hour (R15).
//
// Data in: tenants.yaml, effective-dated versions of rules, and meter.Owner.
// Data out: names. Raw data keeps the facts; the ledger asks when it computes an
// hour, the collector when it shows metrics, and both get the same answer.
//
// Invariants: a version is in force from a full UTC hour on; of its rules the
// first that matches decides; an owner that no rule matches belongs to
// Unassigned. A Mapping doesn't change after it was loaded, and is safe for
// concurrent use.
//
// What can go wrong: a file that can't be read, or that has an unknown key, a
// version twice or inside an hour, a rule without a tenant, or a pattern that is
// none. Errors name the file and the place.
package tenants
