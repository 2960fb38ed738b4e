// Package ingest takes batches from the topic into ClickHouse.
//
// In: messages of gputally.samples.v1, one batch each. Out: rows in samples,
// holds, owners, leaves and events, then one journal row per offset in
// batches, then the commit. Never in another order: the journal row is the
// commit marker of the raw rows, the offset that of the journal row. Killed
// anywhere, the messages come again and write the same rows.
//
// What can't be used goes to gputally.dlq.v1 with reason, position, hash and
// the first 64 KiB, is journalled as dead, and the partition moves on; it can be
// sent back (DeadLetter.Resend). A record batch that can't be read at all is one
// letter, with the batch's bytes, and each of its offsets is dead in the journal;
// runs of more than 10,000 offsets, of holes too, are one row that names the last. Errors of
// ClickHouse or the broker are retried
// for ever, those that pass by themselves soon, those that need a person (a
// missing table or right) up to a minute apart: offsets stay.
//
// What no live collector measured is only taken under a run that an operator
// opened, and live batches only of declared clusters (Origins).
//
// Memory: what one fetch returned, and of it one chunk (chunk_records messages of
// chunk_bytes at most, or one larger message) decoded, settled and as columns,
// which is about 15 times its bytes: 120 MiB at the default of 8 MiB.
//
// Members of a group: a partition that goes to another member while a chunk is
// under way is that member's. The chunk is finished, since its rows are the same
// ones whoever writes them, and its commit is refused by the group; the new owner
// reads it again from the last commit.
//
// Replay takes messages that are still in the topic through all of it again, but
// for the commit.
package ingest
