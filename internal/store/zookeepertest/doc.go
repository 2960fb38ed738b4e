// Package zookeepertest gives a test an Apache ZooKeeper: the Keeper that
// replicated tables need. Data in: the jars that make test-deps fetches, and
// Java. Data out: its address. A test is skipped, with the reason, where either
// is absent; with CI=true in the environment it fails instead.
package zookeepertest
