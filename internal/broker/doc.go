// Package broker is the house's access to Kafka: kafka-go is the only client,
// and kfake, made durable, is the broker of a standalone installation.
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
// Tried with Apache Kafka 4.1.0 (KRaft, one and two brokers) and with kfake as of
// September 2026; the tests put the same questions to both. kafka-go speaks the
// classic group protocol, which Kafka 4.1 still serves beside its new one, and
// fetches by version 11 at most.
//
// What an operator of Apache Kafka should know: EnsureTopics sets no
// min.insync.replicas, so two copies before an acknowledgement are the cluster's
// or the topic's setting; with too few of them production waits and says so. And
// offsets.retention.minutes, 7 days unless set, must exceed the longest time
// that all ingesters may be down: a group whose offsets expired starts at the
// oldest message, and what was deleted before it is told to nobody.
//
// About retention of the embedded broker: kfake's own is turned off, see
// retention. Ours takes samples and dead letters by their topics' own
// retention.ms and retention.bytes, and leaves each partition its last message, so
// that offsets never begin anew. The disk gets room back when a whole segment
// (100 MiB) may go. A message dated in the future, by a clock that was set right
// since, keeps what lies behind it for as long; retention.bytes doesn't wait for it.
//
// A transaction's markers, which only a foreign producer could leave, take
// offsets that hold no message: they are told as holes, too.
//
// About record batches: kafka-go believes every length and count in them, so the
// consumer decodes them itself (records.go), of format 2, which Kafka stores since
// 0.11. A batch that is malformed or of more than its limits (32 MiB decompressed,
// 200,000 records and headers) is one message with Bad, which stands for the batch's
// offsets; a sound record over MaxMessageBytes has Bad, too. Whoever reads goes on
// behind it. The embedded broker refuses such batches when they are produced.
//
// About Message.Time (R11): EnsureTopics creates topics with
// message.timestamp.type=LogAppendTime and insists on it, so that the broker's
// clock dates each message. kafka-go decodes a record's time as the batch's
// first timestamp plus the record's delta, which stay the producer's, and drops
// the max timestamp, which is the append; so the consumer reads that itself. On a
// batch without the attribute Time is the record's own, within its batch's times. The embedded broker
// overwrites that with its own clock as it appends (of a foreign producer's
// batch: the first record's, and the others by their distance). Whoever bounds a
// batch by the append time should still take the earlier of Time and FetchedAt: a
// broker's clock may be wrong too, and a message is never fetched before it is
// appended.
package broker
