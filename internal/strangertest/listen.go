package strangertest

import (
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Listen returns the path of a Unix socket on which another user answers all HTTP
// requests with 200. Every user may connect.
func Listen(t testing.TB) string {
	t.Helper()
	onlyRoot(t)
	path := filepath.Join(folder(t, 0o777), "s")
	// Changes only this thread's user; syscall.Setresuid would change the whole process's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid uintptr) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	become(UID)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	become(0)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), // 200 to all
		ReadHeaderTimeout: time.Minute,
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return path
}
