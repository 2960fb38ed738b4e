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
)

// Error is a path that somebody else could write, or read where it is secret.
type Error struct {
	Path string
	What string // what is wrong with it and what to do
}

func (e *Error) Error() string { return e.Path + " " + e.What }

const (
	othersRead  = 0o004
	othersWrite = 0o002
	groupWrite  = 0o020
)

// File refuses a file or folder that a user other than root and the process's
// own could have written or replaced. The error is an *Error, or the operating
// system's where the path can't be looked at.
func File(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", path, err)
	}
	target, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return err
	}
	paths := append(chain(filepath.Dir(absolute)), chain(target)...)
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if err := check(p); err != nil {
			return err
		}
	}
	return nil
}

// Secret is File for a password, a token or a private key: other users must not
// be able to read it either.
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

// chain is the path with its folders up to the root. A part that is a symbolic
// link is checked where it leads.
func chain(path string) []string {
	paths := []string{path}
	for parent := filepath.Dir(path); parent != path; path, parent = parent, filepath.Dir(parent) {
		paths = append(paths, parent)
	}
	return paths
}

func check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if !trusted(owner.Uid) {
		return &Error{path, fmt.Sprintf("belongs to user %d, and user %d runs this, who trusts root and itself alone. "+
			"Run this as user %d, or chown the file", owner.Uid, os.Geteuid(), owner.Uid)}
	}
	mode := info.Mode()
	others := mode&othersWrite != 0 || mode&groupWrite != 0 && !ownGroup(owner.Gid)
	if others && !(mode.IsDir() && mode&fs.ModeSticky != 0) && !readOnly(path) {
		return &Error{path, fmt.Sprintf("has mode %04o and group %d: other users can write it. Run chmod go-w on it",
			mode.Perm(), owner.Gid)}
	}
	return nil
}

func trusted(uid uint32) bool { return uid == 0 || int64(uid) == int64(os.Geteuid()) }

func ownGroup(gid uint32) bool { return gid == 0 || int64(gid) == int64(os.Getegid()) }

// readOnly says whether the path lies on a file system that is mounted read-only.
func readOnly(path string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(path, &fs) == nil && fs.Flags&syscall.MS_RDONLY != 0
}

// Loopback says whether a URL's host is this machine by its own word: localhost
// or a loopback address. Any other name may resolve to another machine.
func Loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}
