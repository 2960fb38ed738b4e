package unixsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/gputally/gputally/internal/trust"
)

// MaxPath is sizeof(sockaddr_un.sun_path) less its final zero (unix(7)).
const MaxPath = 107

// Listen opens a Unix socket that only its owner may use. The socket of a dead process is replaced: the caller must
// hold a lock that excludes a living one. Anything else at path is an error.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("listen on %q: the path has %d bytes, a Unix socket's can have %d", path, len(path), MaxPath)
	}
	old, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("check for an old socket: %w", err)
	case old.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %q: the path exists and is not a socket (%s): remove it, or use another path",
			path, old.Mode())
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove old socket: %w", err)
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("restrict socket: %w", err)
	}
	return listener, nil
}

// Dial connects to the socket at path, and returns an error if its listener is neither of this process's user nor
// root.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := Peer(conn)
	if err == nil && !trust.User(uid) {
		err = fmt.Errorf("dial unix %s: the listener belongs to user %d, want user %d or root", path, uid, os.Geteuid())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Peer is the user id of a Unix socket's peer at the time when it connected or began to listen. It is an error if
// conn isn't a Unix socket's connection.
func Peer(conn net.Conn) (int, error) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("read peer of socket: %T is not a Unix socket's connection", conn)
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("read peer of socket: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("read peer of socket: %w", err)
	}
	return int(cred.Uid), nil
}
