package trust

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gputally/gputally/internal/fault"
)

// Error is a path that another user could write, or, if it is secret, read.
type Error struct {
	Path string
	What string // what is wrong with it and what to do
}

func (e *Error) Error() string { return e.Path + " " + e.What }

// Class is fault.Environment.
func (*Error) Class() fault.Class { return fault.Environment }

const (
	othersRead  = 0o004
	othersWrite = 0o002
	groupWrite  = 0o020
)

// File returns an error if a user other than root and the process's own could have written or replaced a file or
// directory: it checks the path, the directories above it, and the symbolic links on the way, so that an accepted
// path can't be replaced before it is opened. The error is an *Error, or the operating system's if the path can't be
// read.
func File(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", path, err)
	}
	at, rest := "/", strings.Split(absolute, "/")
	if err := check(at); err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		if next == at { // an empty name, or "."
			continue
		}
		if err := check(next); err != nil {
			return err
		}
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return &Error{path, "leads through more symbolic links than the system follows"}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	return nil
}

// maxLinks is Linux's MAXSYMLINKS.
const maxLinks = 40

// Secret is File for a password, a token or a private key: other users must not be able to read it either.
func Secret(path string) error {
	if err := File(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() && info.Mode()&othersRead != 0 {
		return &Error{path, fmt.Sprintf("has mode %04o: every user can read this secret. Run chmod o-rwx on it; "+
			"in Kubernetes set defaultMode: 0440 and fsGroup", info.Mode().Perm())}
	}
	return nil
}

// check checks a path itself: a symbolic link, not its target.
func check(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if !User(int(owner.Uid)) {
		return &Error{path, fmt.Sprintf("belongs to user %d, but this process of user %d trusts only root and its own user. "+
			"Run this as user %d, or chown the file", owner.Uid, os.Geteuid(), owner.Uid)}
	}
	mode := info.Mode()
	if mode&fs.ModeSymlink != 0 {
		return nil // its mode is irrelevant: only users who can write its directory can replace it
	}
	others := mode&othersWrite != 0 || mode&groupWrite != 0 && !ownGroup(owner.Gid)
	if others && !(mode.IsDir() && mode&fs.ModeSticky != 0) && !readOnly(path) {
		return &Error{path, fmt.Sprintf("has mode %04o and group %d: other users can write it. Run chmod go-w on it",
			mode.Perm(), owner.Gid)}
	}
	return nil
}

// User returns whether a user may make decisions for this process: root, and its own user.
func User(uid int) bool { return uid == 0 || uid == os.Geteuid() }

func ownGroup(gid uint32) bool { return gid == 0 || int64(gid) == int64(os.Getegid()) }

// readOnly returns whether the path is on a file system that is mounted read-only.
func readOnly(path string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(path, &fs) == nil && fs.Flags&syscall.MS_RDONLY != 0
}

// Loopback returns whether a URL's host is certainly this machine: localhost or a loopback address. Other names may
// resolve to other machines.
func Loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}
