// Package hostiletest makes what a hostile sender may send: batches with any field
// of any value, any number of times and in any order, bytes that are no batch, record
// batches with any header in any codec, and decisions that nobody took.
//
// In goes a seed, out come messages: the same seed makes the same messages. What can
// go wrong: a message may be sound, and then it counts; whoever holds honest data
// against undisturbed data leaves out those that speak for honest nodes or tenants.
package hostiletest
