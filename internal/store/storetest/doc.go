// Package storetest gives a test an empty, migrated database on an engine in a
// helper process, one engine per test binary. Databases are handed on from test
// to test, emptied. Data in: nothing. Data out: a *store.DB.
// A test is skipped, with the reason, where the library is absent; with CI=true
// in the environment it fails instead.
package storetest
