// Package grafana makes the dashboard "GPU ledger: who used what" from
// panels.yaml: the ledger's questions as ClickHouse queries, the services'
// health as Prometheus queries. gputally.json is its committed form.
//
// Invariants: the same panels give the same bytes; every ClickHouse query runs
// on the schema and returns the columns its panel names, which a test holds on
// the real engine with Grafana's macros expanded. Queries sum slice-ms per
// GPU-hour row and divide by that row's slices, so that GPUs of different
// slice counts add up.
package grafana

//go:generate go test -run TestGolden -update .
