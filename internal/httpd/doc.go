// Package httpd is the HTTP server of every service: /metrics, /-/healthy, /-/ready, and the routes that the service
// adds.
//
// Invariants: package guard checks requests to every route. There is no log-in, so the loopback address, which every
// user of the machine can reach, is read-only: decisions are accepted on a Unix socket (mode 0600) that admits the
// service's own user and root, by the kernel's peer credentials (SO_PEERCRED). Errors: the port is in use; the
// address is public.
package httpd
