package httpd

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Config is a server's configuration.
type Config struct {
	// Listen is host:port, on loopback. Port 0 takes any free one.
	Listen string `yaml:"listen"`
}

// DefaultConfig listens on port 9415 of the IPv4 loopback address.
func DefaultConfig() Config { return Config{Listen: "127.0.0.1:9415"} }

// Validate refuses an address that other machines can reach.
func (c Config) Validate() error {
	_, err := loopbackAddress(c.Listen)
	return err
}

// loopbackAddress returns the address to bind, with localhost written out so
// that no resolver has a say in it.
func loopbackAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("listen %q: want host:port, such as 127.0.0.1:9415: %w", listen, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("listen %q: want a port from 0 to 65535, got %q", listen, port)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	if !isLoopback(host) {
		return "", fmt.Errorf("listen %q: other machines could reach it, and there is no access control yet: use a loopback address, such as 127.0.0.1:%s", listen, port)
	}
	return net.JoinHostPort(host, port), nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// hostAllowed reports whether a request's Host header names this machine's
// loopback interface, with any port or none.
func hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return strings.EqualFold(name, "localhost") || isLoopback(name)
}
