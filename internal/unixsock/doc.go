// Package unixsock opens and dials the Unix sockets that the processes of one user share.
//
// Data in: a path, at most 107 bytes long. Data out: a listener whose socket has mode 0600, and connections.
//
// Invariant: neither side communicates with another user's process. The directory of the socket should be private
// (0700); even if it is not, the peer's user is checked by SO_PEERCRED (unix(7)), which the kernel sets.
package unixsock
