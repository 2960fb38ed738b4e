// Package hostiletest makes messages that a hostile sender may send: batches whose
// fields have any value, any number of times and in any order, bytes that aren't a
// batch, record batches with any header in any codec, and forged decisions.
//
// Data in: a seed. Data out: messages; the same seed gives the same messages. A message
// may be valid by chance, and then it counts: a test that compares the data of honest
// senders with an undisturbed run must leave out messages in the names of honest nodes
// or tenants.
package hostiletest
