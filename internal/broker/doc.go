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
// About Message.Time: kafka-go decodes a record's time as the batch's first
// timestamp plus the record's delta, and ignores the append time that a topic
// with message.timestamp.type=LogAppendTime carries. On a Kafka cluster Time is
// therefore the producer's clock at the produce call. The embedded broker
// overwrites the timestamp with its own clock as it appends, so there Time is
// the append time (of a foreign producer's batch: of its first record).
// Whoever bounds a batch by the append time (R11) should take the earlier of
// Time and FetchedAt: a message is never fetched before it is appended.
package broker
