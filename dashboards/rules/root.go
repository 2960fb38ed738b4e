// Package rules has the alerting rules for Prometheus as one file, which Prometheus loads as it is.
//
// Invariants: every alert has a severity, a time it must hold, and a runbook that says what to do; promtool checks
// the rules and runs them against series for which they must and must not fire. What can go wrong is a metric that
// changes its name: an alert on it would never fire again.
package rules

import _ "embed"

// FileName is the rule file's name on disk.
const FileName = "gputally.rules.yml"

//go:embed gputally.rules.yml
var file []byte

// YAML is the rule file.
func YAML() ([]byte, error) { return file, nil }
