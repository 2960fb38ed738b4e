// Package ingest takes batches from the topic into ClickHouse.
//
// In: messages of gpuledger.samples.v1, one batch each. Out: rows in samples,
// holds, owners, leaves and events, then one journal row per offset in
// batches, then the commit. Never in another order: the journal row is the
// commit marker of the raw rows, the offset that of the journal row. Killed
// anywhere, the messages come again and write the same rows.
//
// What can't be used goes to gpuledger.dlq.v1 with reason, position, hash and
// the first 64 KiB, is journalled as dead, and the partition moves on. Errors
// of ClickHouse or the broker are retried for ever: offsets stay, memory is
// bounded by one chunk.
package ingest
