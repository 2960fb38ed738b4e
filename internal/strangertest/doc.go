// Package strangertest runs a test's binary as another user of the machine, to see
// what that user reaches, or listens as that user, to see who talks to him.
//
// Data in: environment variables by which the binary's TestMain knows what to do.
// Data out: a command that runs as nobody (uid 65534). What can go wrong: only
// root can become another user; without root the test is skipped, and with
// CI=true it fails.
package strangertest
