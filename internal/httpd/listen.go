package httpd

import (
	"log/slog"
	"net"

	"github.com/gpuledger/gpuledger/internal/trust"
	"github.com/gpuledger/gpuledger/internal/unixsock"
)

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
		if err == nil && trust.User(uid) {
			return conn, nil
		}
		l.log.Warn("refused a connection to the HTTP socket", "uid", uid, "error", err)
		_ = conn.Close()
	}
}
