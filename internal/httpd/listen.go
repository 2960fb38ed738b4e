package httpd

import (
	"log/slog"
	"net"

	"github.com/gputally/gputally/internal/trust"
	"github.com/gputally/gputally/internal/unixsock"
)

// owners accepts connections of the service's own user and of root, and closes all others.
type owners struct {
	net.Listener
	log *slog.Logger
}

// Accept waits for an accepted connection.
func (l *owners) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := unixsock.Peer(conn)
		switch {
		case err != nil:
			l.log.Warn("refused a connection to the HTTP socket: its user is unknown", "error", err)
		case !trust.User(uid):
			l.log.Warn("refused a connection of another user to the HTTP socket", "uid", uid)
		default:
			return conn, nil
		}
		_ = conn.Close()
	}
}
