// Package ingest writes the batches of the topic to ClickHouse.
//
// In: messages of gputally.samples.v1, one batch each. Out: rows in samples, holds,
// owners, leaves and events, then one journal row per offset in table batches, then
// the commit. The order never changes: the journal row marks the raw rows as complete,
// the committed offset marks the journal row. After a crash at any point the messages
// are read again and give the same rows.
//
// Messages that can't be used go to gputally.dlq.v1 with reason, position, hash and
// the first 64 KiB, get a journal row with status dead, and the partition goes on;
// they can be sent back (DeadLetter.Resend). An unreadable record batch is one dead
// letter that holds its bytes, and each of its offsets is dead in the journal; a range
// of more than 10,000 unreadable or deleted offsets is one journal row that names the
// last offset. Errors of ClickHouse or the broker are retried for ever: temporary ones
// soon, those that need a person (a missing table or privilege) at intervals of up to
// a minute. The offsets are not committed before.
//
// Batches that aren't live are accepted only under a run that an operator opened, and
// live batches only of declared clusters (Origins).
//
// Memory: the messages of one fetch, and one chunk of them (at most chunk_records
// messages and chunk_bytes, or one larger message) decoded, classified and as columns.
// That takes about 15 times the chunk's bytes: 120 MiB at the default of 8 MiB.
//
// Consumer groups: if a partition moves to another member while a chunk is processed,
// the chunk is finished, because every member writes the same rows, but the group
// refuses the commit; the new owner reads the chunk again from the last commit.
//
// Replay processes messages that are still in the topic again, in the same way but
// without a commit.
package ingest
