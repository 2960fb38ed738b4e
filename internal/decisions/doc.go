// Package decisions keeps what people and billing decided: price books, frozen
// hours, finalised invoices, notes, approvals, mappings, marks of findings, audit
// entries, and the policy of who approves (R6).
//
// Data in and out: records of the topic gputally.decisions.v1, which has one
// partition and never expires. It is the only truth; everything else, ClickHouse
// included, is a projection. State is the fold of its records in offset order:
// a pure function of the topic's bytes, so that every process comes to the same
// state, with no clock and no time-zone data in it.
//
// A message is one of two things, which its key says. A part is up to 512 KiB
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
//   - a record batch that can't be read (malformed, of more than package broker's
//     limits, or a transaction's marker) is refused. Each of its offsets counts as a
//     message without a key, whose value is "unreadable record batch with SHA-256 " and
//     the hash, in hex, of the batch as the broker has it: so the chain covers its bytes,
//     and a restored topic may hold that message in its place. What a batch may hold is
//     part of this format: another limit may be another state.
//
// What can go wrong: the topic lost messages, then everything answers ErrDeleted
// until a person has restored it; the broker is away, then reading waits for ctx
// and a writer doesn't know whether its record is there, which asking again with
// the same key and request tells. A writer that sends the same record twice, as
// the client does when an acknowledgement is lost, repeats it harmlessly.
//
// # The copy
//
// What was read is copied to a second folder (Options.CopyDir), so that a topic
// that was deleted, cut off or edited is noticed, and can be restored. Goals: a
// file that was closed is never written or renamed again, so that the folder may
// lie on a disk that locks objects; whatever killed the writer, what it had synced
// is read; several writers do no harm. It is no goal to keep anybody from editing
// who may write to both: that takes another machine, or a witness.
//
//	folder   files by first offset:  <offset, 20 digits>-<random, 16 hex>.decisions
//	file     "GLDECIS1"  record*      appended to; closed at 64 MiB or after an hour
//	record   length   4  bytes after the prefix, big-endian as all numbers
//	         crc      4  CRC-32C of those bytes
//	         crc      4  CRC-32C of the 8 bytes before
//	         offset   8
//	         appended 8  the broker's append time, in milliseconds since 1970
//	         chain   32  the chain's value after it
//	         key len  4
//	         key, value
//
// A process that starts begins a new file, at the first offset that is not on disk.
// An offset that is in two files must have the same record in both. The reader
// recomputes CRC and chain of every record. A crash can leave a record that is cut
// off, or zeros, at the end of a file; both are ignored. A wrong record elsewhere is
// damage. A writer that has the log then copies the messages from the damaged offset
// on into a new file. A restore has no log: it refuses the copy and names file and
// byte, unless another file has a good record of the offset. Files that begin after
// the damaged offset are checked as soon as a good record of it exists.
//
// The copy never has more than the log: a message is copied, with fsync, after it was
// read back from the log. In the process that copies, Append returns after that.
// Decisions of other processes are copied when this process reads them. A copy that
// fails is counted and tried again at the next read; decisions go on meanwhile. If the
// log is shorter than its copy, or differs from it, Whole returns an error, and Append
// and Put refuse: a further message would take an offset that a restore needs.
//
// A restored message has the append time of the lost one in a header, because runs and
// clusters are judged by append times. The chain covers neither the header nor the
// broker's time. The header is used only if its time lies between the append time of
// the message before and the broker's time of the restored message.
//
// In memory are price books, invoices without their documents, the marks of the last
// 100,000 findings that had one, and some 400 bytes for each other record.
//
// # Kinds that are added
//
// A program that doesn't know a kind refuses its records and goes on: the chain is the
// same, the state lacks what the kind decides. Kind finding (Finding) decides nothing
// about money, so that an older program's state differs in no other kind, unless a later
// record has a key that a finding used: the older one accepts it.
package decisions
