package httpd

import (
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/gpuledger/gpuledger/internal/unixsock"
)

// bounded accepts a connection when one of the places is free: those who come
// later wait in the system's queue, and cost no memory here.
type bounded struct {
	net.Listener
	places chan struct{}
}

// Accept waits for a place, then for a connection.
func (l *bounded) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

type placed struct {
	net.Conn
	leave func()
}

// Close gives the place back.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// owners accepts connections of the service's own user and of root, and hangs
// up on every other.
type owners struct {
	net.Listener
	log *slog.Logger
}

// Accept waits for a connection of theirs.
func (l *owners) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := unixsock.Peer(conn)
		if err == nil && (uid == 0 || uid == os.Geteuid()) {
			return conn, nil
		}
		l.log.Warn("refused a connection to the HTTP socket", "uid", uid, "error", err)
		_ = conn.Close()
	}
}
