// Package strangertest runs a test's binary as another user of the machine, to test
// what that user can access, or listens as that user, to test who connects.
//
// Data in: environment variables that tell the binary's TestMain what to do.
// Data out: a command that runs as nobody (uid 65534). What can go wrong: only
// root can become another user; without root the test is skipped, and with
// CI=true it fails.
package strangertest
