// Package httpd is the HTTP server that every service has: /metrics,
// /-/healthy, /-/ready, and what the service mounts beside them.
//
// Invariants: package guard stands in front of every route. There is no log-in
// yet, so a loopback address, which every user of the machine reaches, only
// reads: decisions are taken over a Unix socket (mode 0600) that asks the kernel
// who connects (SO_PEERCRED) and lets in the service's own user and root. What
// can go wrong: the port is in use; the address is public.
package httpd
