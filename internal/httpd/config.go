package httpd

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gputally/gputally/internal/trust"
	"github.com/gputally/gputally/internal/unixsock"
)

// Config is a server's configuration.
type Config struct {
	// Listen is a loopback host:port, which every user of the machine can read; port 0 takes any free one. "unix":
	// only the Unix socket is served.
	Listen string `yaml:"listen"`
	// Socket is the path of a Unix socket that only the service's own user can open, and that accepts decisions.
	// Empty: one in a private directory, named in run.json of the data directory; a service without a data directory
	// then has none.
	Socket string `yaml:"socket"`
}

// listenUnix is the value of Listen for the Unix socket only.
const listenUnix = "unix"

// DefaultConfig listens on port 9415 of the IPv4 loopback address.
func DefaultConfig() Config { return Config{Listen: "127.0.0.1:9415"} }

// Validate refuses an address that other machines can reach, and an invalid socket path.
func (c Config) Validate() error {
	if c.Socket != "" && (!filepath.IsAbs(c.Socket) || len(c.Socket) > unixsock.MaxPath) {
		return fmt.Errorf("socket %q: want an absolute path of at most %d bytes", c.Socket, unixsock.MaxPath)
	}
	if c.Listen == listenUnix {
		return nil
	}
	_, err := loopbackAddress(c.Listen)
	return err
}

// loopbackAddress returns the address to bind, with localhost replaced by an IP address, so that no resolver is
// involved.
func loopbackAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("listen %q: want host:port, such as 127.0.0.1:9415, or unix for the Unix socket only: %w",
			listen, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("listen %q: want a port from 0 to 65535, got %q, or unix for the Unix socket only",
			listen, port)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	if !trust.Loopback(host) {
		return "", fmt.Errorf(
			"listen %q: other machines could reach it, and there is no access control yet: use a loopback address, such as "+
				"127.0.0.1:%s, or unix for the Unix socket only", listen, port)
	}
	return net.JoinHostPort(host, port), nil
}
