// Package field is the table of DCGM fields that sources read: id, names in all versions, the range outside of which
// a value is impossible, and whether a value on a MIG instance is the instance's own. Unusable values are absent,
// with a reason that sources count.
package field
