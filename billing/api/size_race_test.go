//go:build race

package api_test

// onceTenants fits a test run under the race detector.
const onceTenants = 50
