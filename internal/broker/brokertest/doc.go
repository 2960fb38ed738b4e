// Package brokertest gives tests an Apache Kafka in KRaft mode, from the jars
// that `make test-deps` fetches, as a child process: one per test binary, since
// each start takes seconds.
//
// Data in: nothing. Data out: the address of a broker without topics and groups,
// and the means to kill it, to start it again and to give it a second broker.
// A test is skipped, with the reason, where Java or the jars are absent; with
// CI=true in the environment it fails instead.
//
// What can go wrong: a port is taken between its choice and Kafka's bind, then
// others are tried; the test binary dies, then the kernel kills Kafka, and the
// next start of one removes the folder.
package brokertest
