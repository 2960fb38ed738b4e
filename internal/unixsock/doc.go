// Package unixsock opens and dials the Unix sockets that the processes of one
// user share.
//
// Data in: a path, at most 107 bytes long. Data out: a listener whose socket has
// mode 0600, and connections.
//
// Invariant: neither side talks to another user. The folder of the socket should
// be private (0700); where it is not, SO_PEERCRED (unix(7)) still says who the
// other side is, since the kernel fills it in.
package unixsock
