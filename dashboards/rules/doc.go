// Package rules makes the Prometheus alerting rules from Go; gputally.rules.yml
// is their committed form, loaded by Prometheus as it is.
//
// Invariants: every alert has a severity, a time it must hold, and a runbook
// that says what to do; the rules are checked and run against series that must
// and must not fire. What can go wrong is a metric that changes its name: an
// alert on it would be silent for ever.
package rules

//go:generate go test -run TestGolden -update .
