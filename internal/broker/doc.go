// Package broker is the program's access to Kafka: kafka-go is the only client
// (kafkago.go says what is done beside it, and why), and kfake, made durable, is the
// broker of a standalone installation.
//
// Data in: messages with a key (the node) and a value (a wire.Batch).
// Data out: the same messages in offset order per partition, each with the hole
// before it, if retention deleted some.
//
// Invariants: Produce returns nil for a message only after the broker's
// acknowledgement by all in-sync replicas; a message may be there twice
// (kafka-go's producer is not idempotent), never not at all. Messages of one
// key keep their order within a call. Offsets that were skipped are always
// reported, never silently jumped over.
//
// Tested with Apache Kafka 4.1.0 (KRaft, one and two brokers) and with kfake as of
// September 2026, by the same tests. kafka-go uses the classic group protocol, which
// Kafka 4.1 still serves beside its new one, and fetches by version 11 at most.
//
// For operators of Apache Kafka: EnsureTopics sets no min.insync.replicas, so two
// copies before an acknowledgement are the cluster's or the topic's setting; with too
// few of them produce requests are repeated and a warning is logged. And
// offsets.retention.minutes, 7 days unless set, must exceed the longest time
// that all ingesters may be down: a group whose offsets expired starts at the
// oldest message, and what was deleted before that message is not reported as a hole.
//
// Retention of the embedded broker: kfake's own is turned off, see type retention.
// This package deletes samples and dead letters by their topics' own
// retention.ms and retention.bytes, and leaves each partition its last message, so
// that offsets never begin again at 0. Disk space is freed when a whole segment
// (100 MiB) may go. A message with a time in the future, from a clock that was wrong
// then, keeps the messages behind it for as long; retention.bytes doesn't wait for it.
//
// A transaction's markers, which only a foreign producer could leave, take
// offsets that hold no message: they are reported as holes, too.
//
// Record batches: kafka-go believes every length and count in them, so the
// consumer decodes them itself (records.go), of format 2, which Kafka stores since
// 0.11. A batch that is malformed or exceeds a limit (32 MiB decompressed,
// 200,000 records and headers) is one message with Bad, which stands for all offsets
// of the batch; a sound record over MaxMessageBytes has Bad, too. Reading goes on
// behind it. The embedded broker refuses such batches when they are produced.
//
// Message.Time (R11): EnsureTopics creates topics with
// message.timestamp.type=LogAppendTime and insists on it, so that the broker's
// clock dates each message. kafka-go decodes a record's time as the batch's
// first timestamp plus the record's delta, which stay the producer's, and drops
// the max timestamp, which is the append; so the consumer reads that itself. On a
// batch without the attribute Time is the record's own, within its batch's times. The
// embedded broker overwrites that with its own clock as it appends (of a foreign
// producer's batch: the first record's, and the others by their distance). Who limits
// a batch by its append time should use the earlier of Time and FetchedAt: a
// broker's clock may be wrong too, and a message is never fetched before it is
// appended.
package broker
