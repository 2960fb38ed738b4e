// Package guard protects the finance API: it passes valid requests to the handlers and answers all others itself.
//
// Data in: any HTTP request. Data out: the handler's answer with an ETag, or an RFC 9457 problem, never plain text.
// Requests are refused in this order: unknown Host (421, against DNS rebinding), cross-site in a browser (403), rate
// limit (429, a token bucket per client), unknown path (404) or method (405), body too long (413) or incomplete (408,
// 400). The request then waits for a place among those in flight, until its deadline (503). Probes (/metrics, /-/)
// have no rate limit and need no place.
//
// Invariants: a panic is a 500 and a line in the log; an answer that isn't streamed has a strong ETag, the SHA-256 of
// its body, and isn't sent again to a client that has it (304). Limitation: a handler that flushes starts a stream,
// which has no ETag and can only be aborted if the handler fails.
package guard
