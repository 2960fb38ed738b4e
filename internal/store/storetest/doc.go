// Package storetest gives a test an empty, migrated database on an engine in a helper process, one engine per test
// binary. Databases are emptied and reused by later tests. Data in: nothing. Data out: a *store.DB. A test is
// skipped, with the reason, if the library is missing; with CI=true in the environment it fails instead.
package storetest
