// Package zookeepertest gives a test an Apache ZooKeeper, which replicated tables
// need. Data in: the jars that make test-deps fetches, and Java. Data out: its address.
// If either is missing, the test is skipped with the reason; with CI=true it fails.
package zookeepertest
