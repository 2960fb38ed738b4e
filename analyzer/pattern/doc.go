// Package pattern joins idle allocations that recur, such as a notebook's nights, to one finding a month.
//
// Data in: proven idle allocations, sorted, each as a whole. Data out: the same ones, each with its pattern's id as
// parent, and a pattern for every workload and calendar month (UTC, by the allocations' starts) with at least one that
// recurs.
//
// Allocations belong together if they agree in cluster, tenant, project and stem: the workload's name without what
// differs from start to start (replica set, pod and job numbers); without a name that is left, the user, else the whole
// name. One recurs if
// on at least two other local days of the fourteen before it there was one, too.
//
// Invariants: a pattern's waste is the sum of its allocations'. It depends only on allocations that began in its month
// or up to 14 days before.
//
// A schedule is proposed from what was observed: the hours of the day in which the workload was idle on at least six
// of ten days with idle time. Its saving is the idle time within these hours, not an estimate
// of the future.
package pattern
