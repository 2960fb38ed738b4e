// Package guard stands in front of the finance API: it lets through what a
// handler may see, and answers everything else itself.
//
// Data in: any HTTP request. Data out: the handler's answer with an ETag, or
// an RFC 9457 problem; nothing is ever plain text. In this order a request is
// refused for a Host that is not ours (421: DNS rebinding), for coming from
// another site in a browser (403), for coming too often (429, a token bucket
// per client), for an unknown path (404) or method (405), for a body that is too
// long (413) or doesn't come (408, 400); it then waits for a place among those
// being answered, no longer than its deadline (503). Probes (/metrics, /-/) are
// never too many, and wait for no place.
//
// Invariants: a panic is a 500 and a line in the log; an answer that is not
// streamed has a strong ETag, the SHA-256 of its body, and is not sent again to
// who has it (304). What can go wrong: a handler that flushes has begun a
// stream, which has no ETag and can only be cut off when it fails.
package guard
