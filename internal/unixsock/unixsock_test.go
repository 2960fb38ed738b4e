package unixsock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/strangertest"
	"github.com/gputally/gputally/internal/unixsock"
)

// TestM8OnlySocketsAreReplaced: a path that names something else by mistake is an
// error, and what is there stays.
func TestM8OnlySocketsAreReplaced(t *testing.T) {
	dir := t.TempDir()
	file, folder, link := filepath.Join(dir, "prices.yaml"), filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("currency: EUR"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, folder, link} {
		listener, err := unixsock.Listen(t.Context(), path)
		if err == nil {
			_ = listener.Close()
			t.Errorf("%s: a socket took its place", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("error %v doesn't name %s", err, path)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("what was there is gone: %v", err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "currency: EUR" {
		t.Errorf("the file is %q, %v", got, err)
	}
	socket := filepath.Join(dir, "socket")
	for range 2 { // the second finds what a dead process left
		listener, err := unixsock.Listen(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		listener.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
		_ = listener.Close()
	}
}

func TestDialHangsUpOnAnotherUser(t *testing.T) {
	own := filepath.Join(t.TempDir(), "s")
	listener, err := unixsock.Listen(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := unixsock.Dial(t.Context(), own)
	if err != nil {
		t.Fatalf("own user: %v", err)
	}
	_ = conn.Close()
	if conn, err := unixsock.Dial(t.Context(), strangertest.Listen(t)); err == nil {
		_ = conn.Close()
		t.Error("connected to another user's socket")
	}
}
