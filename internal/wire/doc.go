// Package wire is the contract between collectors and the ingester: one Batch per node and slot, facts only (R1), as
// protobuf (batch.proto) on the topic and as JSON lines in imports. It validates batches and ranks those of one slot
// (R1); buckets and money are not part of it.
package wire

//go:generate protoc -I ../.. --go_out=../.. --go_opt=paths=source_relative internal/wire/batch.proto
