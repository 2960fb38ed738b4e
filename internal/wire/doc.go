// Package wire is the contract between collectors and the ingester: one Batch
// per node and slot, facts only (R1), as protobuf (batch.proto) on the topic
// and as JSON lines in imports. It validates what comes in, ranks batches of
// one slot against each other (R1), and knows nothing of buckets or money.
package wire

//go:generate protoc -I ../.. --go_out=../.. --go_opt=paths=source_relative internal/wire/batch.proto
