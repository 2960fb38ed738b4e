// Package placetest tells tests where things are: the module's folder, where
// what `make test-deps` fetched lies below .build, and addresses of this machine
// that nobody listens on.
//
// Data in: the working directory, which `go test` sets to the package's folder.
// Data out: paths and host:port. What can go wrong: a program takes a free
// address before the test does; whoever listens there fails and says so.
package placetest
