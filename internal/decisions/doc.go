// Package decisions keeps what people and billing decided: price books, frozen
// hours, finalised invoices, notes, approvals, mappings, mutes, audit entries,
// and the policy of who approves (R6).
//
// Data in and out: records of the topic gpuledger.decisions.v1, which has one
// partition and never expires. It is the only truth; everything else, ClickHouse
// included, is a projection. State is the fold of its records in offset order:
// a pure function of the topic's bytes, so that every process comes to the same
// state, with no clock and no time-zone data in it.
//
// A message is one of two things, told apart by its key. A part is up to 512 KiB
// of a document or a copy of usage; its key is the SHA-256 of its value, in hex.
// A record is canonical JSON, see Record; its key is its kind. The header "kind"
// says the same, for people who read the topic with other tools; nothing else
// reads it, since the chain doesn't cover it.
//
// Invariants:
//   - the first valid record per idempotency key, per invoice number and per
//     hour of a tenant wins; later ones are refused, with a reason. A record that
//     was refused for another reason takes no key.
//   - parts are written before the record that names them, and a record that
//     names a part that isn't there is refused: a writer that is killed leaves
//     parts that nobody names, never half an invoice.
//   - what was accepted stays: nothing in a later record takes it back.
//   - a message that can't be used is refused and never stops the fold. It costs
//     time and memory by its size, of at most 1 MiB (6 MiB and the rest for a file)
//     that is looked at, and leaves a reason of at most 8 KiB.
//   - once a Policy wants approvals, no invoice, note or policy stands without a
//     fitting one, whatever the configuration of its writer says.
//   - chain = SHA-256(chain before || offset, 8 bytes big-endian ||
//     SHA-256(message key || 0 || value)), from 32 zero bytes on, over every
//     message, refused or not: whoever keeps one value of it can tell later
//     whether a byte before it was changed.
//
// What can go wrong: the topic lost messages, then everything answers ErrDeleted
// until a person has restored it; the broker is away, then reading waits for ctx
// and a writer doesn't know whether its record is there, which asking again with
// the same key and request tells. A writer that sends the same record twice, as
// the client does when an acknowledgement is lost, repeats it harmlessly.
//
// In memory are price books, invoices without their documents, and some 400
// bytes for each other record.
package decisions
