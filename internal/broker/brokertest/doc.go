// Package brokertest gives tests an Apache Kafka in KRaft mode, from the jars that `make test-deps` fetches, as a
// child process: one per test binary, since each start takes seconds.
//
// Data in: nothing. Data out: the address of a broker without topics and groups, and functions that kill it, start it
// again and add a second broker. A test is skipped, with the reason, if Java or the jars are missing; with CI=true in
// the environment it fails instead.
//
// Errors handled: a port taken between its choice and Kafka's bind: others are tried. The test binary dies: the
// kernel kills Kafka, and the next start removes its directory.
package brokertest
