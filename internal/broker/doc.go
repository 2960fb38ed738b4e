// Package broker is the program's access to Kafka. kafka-go is the only client (kafkago.go lists what this package
// does itself, and why); kfake with durable storage is the broker of a standalone installation.
//
// Data in: messages with a key (the node) and a value (a wire.Batch). Data out: the same messages in offset order per
// partition, each with the range of offsets that retention deleted before it, if any.
//
// Invariants: Produce returns nil for a message only after all in-sync replicas have acknowledged it. A message may
// be written twice (kafka-go's producer is not idempotent), but never lost. Messages of one key keep their order
// within a call. Skipped offsets are always reported.
//
// Tested with Apache Kafka 4.1.0 (KRaft, one and two brokers) and with kfake as of September 2026, by the same tests.
// kafka-go uses the classic group protocol, which Kafka 4.1 still serves beside the new one, and fetches by version
// 11 at most.
//
// For operators of Apache Kafka: EnsureTopics sets no min.insync.replicas, so set it on the cluster or the topic if
// each acknowledgement shall mean two copies; with too few replicas produce requests are repeated and a warning is
// logged. offsets.retention.minutes (default 7 days) must exceed the longest time that all ingesters may be down: a
// group whose offsets expired starts at the oldest message, and earlier deleted messages are not reported as a hole.
//
// Retention of the embedded broker: kfake's own is turned off (see type retention). This package deletes samples and
// dead letters by their topics' own retention.ms and retention.bytes, and keeps the last message of each partition,
// so that offsets never restart at 0. Disk space is freed when a whole segment (100 MiB) may be deleted. A message
// with a time in the future, from a clock that was wrong, keeps the messages behind it until that time;
// retention.bytes applies regardless.
//
// A transaction's markers, which only a foreign producer could write, take offsets without a message: they are
// reported as holes, too.
//
// Record batches: kafka-go trusts every length and count in them, so the consumer decodes them itself (records.go),
// in format 2, which Kafka has stored since 0.11. A batch that is malformed or exceeds a limit (32 MiB decompressed,
// 200,000 records and headers) becomes one message with Bad set that represents all offsets of the batch; a sound
// record over MaxMessageBytes has Bad set, too. Reading continues behind it. The embedded broker refuses such batches
// when they are produced.
//
// Message.Time (R11): EnsureTopics creates topics with message.timestamp.type=LogAppendTime and refuses topics
// without it, so that the broker's clock dates each message. kafka-go computes a record's time from the batch's first
// timestamp and the record's delta, which are the producer's, and drops the max timestamp, which is the time of the
// append; so the consumer reads that itself. For a batch without the attribute, Time is the record's own, limited to
// the times in the batch's header. The embedded broker overwrites the times with its own clock when it appends (in a
// foreign producer's batch the first record's time, and the others keep their distance to it). To bound when a batch
// was appended, use the earlier of Time and FetchedAt: a broker's clock may be wrong too, and a message is never
// fetched before it is appended.
package broker
