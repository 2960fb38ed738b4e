package placetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Root is the folder of go.mod, from the working directory upwards.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module's folder: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find the module's folder: no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// FreeAddress returns a host:port of this machine on which nothing listens.
func FreeAddress(t testing.TB) (host, port string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if host, port, err = net.SplitHostPort(listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return host, port
}
