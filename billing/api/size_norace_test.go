//go:build !race

package api_test

const onceTenants = 500
