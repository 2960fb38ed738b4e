// Package placetest gives tests paths and addresses: the module's folder, the files that
// `make test-deps` fetched below .build, and free addresses of this machine.
//
// Data in: the working directory, which `go test` sets to the package's folder.
// Data out: paths and host:port. What can go wrong: another program takes a free
// address before the test does; then listening on it fails with an error.
package placetest
