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

// Listen opens a Unix socket that only its owner may use. A socket left behind by
// a dead process is replaced: the caller holds a lock that says that it is dead.
// Anything else at path is an error.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("listen on %q: the path has %d bytes, a Unix socket's can have %d", path, len(path), MaxPath)
	}
	old, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look for an old socket: %w", err)
	case old.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %q: what is there is no socket (%s) and stays: remove it, or name another path",
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

// Dial connects to the socket at path, and hangs up where neither this process's
// user nor root listens there.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := Peer(conn)
	if err == nil && !trust.User(uid) {
		err = fmt.Errorf("dial unix %s: user %d listens there, want user %d or root", path, uid, os.Geteuid())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Peer is the user id of the other side of a Unix socket, as it was when the
// other side connected or began to listen. The error says that conn is none.
func Peer(conn net.Conn) (int, error) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("ask who is at the other side: %T is not a Unix socket's connection", conn)
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask who is at the other side: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("ask who is at the other side: %w", err)
	}
	return int(cred.Uid), nil
}
