// Package httpd is the HTTP server that every service has: /metrics,
// /-/healthy, /-/ready, and what the service mounts beside them.
//
// Invariants: there is no access control yet, so it listens on loopback
// addresses only, and answers only requests whose Host is a loopback name,
// which keeps a web page in the operator's browser from reading money by DNS
// rebinding. What can go wrong: the port is in use; the address is public.
package httpd
