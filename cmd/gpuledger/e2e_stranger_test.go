package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/clock"
	"github.com/gpuledger/gpuledger/internal/strangertest"
)

// strangerEnv makes the test binary the child of TestC1AnotherUserReachesHTTPAlone:
// it has a target on each line, "tcp ADDRESS", "unix PATH" or "file PATH".
const strangerEnv = "GPULEDGER_TEST_STRANGER_TARGETS"

// tryTargets prints each target with what another user gets of it.
func tryTargets(targets string) {
	for target := range strings.Lines(targets) {
		target = strings.TrimSpace(target)
		kind, name, _ := strings.Cut(target, " ")
		yields := "opened"
		var err error
		if kind == "file" {
			var f *os.File
			if f, err = os.Open(name); err == nil {
				_, err = f.Stat()
			}
		} else {
			yields, err = converse(kind, name)
		}
		if errors.Is(err, fs.ErrPermission) {
			yields = "no permission"
		} else if err != nil {
			yields = "nothing: " + err.Error()
		}
		fmt.Printf("%s: %s\n", target, yields)
	}
}

// converse asks as a browser would, and says what the answer begins with.
func converse(network, address string) (string, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(clock.Real().Now().Add(patience))
	if _, err := fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
		return "", err
	}
	answer := make([]byte, len("HTTP/1.1 200"))
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

// socketsOf lists what processes listen on, or are bound to.
func socketsOf(t *testing.T, pids ...int) (targets []string) {
	t.Helper()
	inodes := map[string]bool{}
	for _, pid := range pids {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			link, _ := os.Readlink(fd) // it may be closed by now
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	const listens = "0A"
	for _, table := range []string{"tcp", "tcp6"} {
		for line := range strings.Lines(string(readFile(t, "/proc/net/"+table))) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listens || !inodes[f[9]] {
				continue
			}
			_, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			targets = append(targets, fmt.Sprintf("tcp 127.0.0.1:%d", n))
		}
	}
	for line := range strings.Lines(string(readFile(t, "/proc/net/unix"))) {
		if f := strings.Fields(line); len(f) == 8 && inodes[f[6]] && !slices.Contains(targets, "unix "+f[7]) {
			targets = append(targets, "unix "+f[7])
		}
	}
	return targets
}

// TestC1AnotherUserReachesHTTPAlone lists every port, socket and file of a running
// standalone, and what another user of the machine gets of each.
func TestC1AnotherUserReachesHTTPAlone(t *testing.T) {
	child := strangertest.Command(t)
	data := newDataDir(t)
	server := spawn(t, data, "standalone", "--listen", "127.0.0.1:0")
	server.reaches(t, "gpuledger_ledger_last_pass_timestamp_seconds", 1)
	run, err := app.ReadRun(data)
	if err != nil {
		t.Fatal(err)
	}
	targets := socketsOf(t, append(childrenOf(server.pid), server.pid)...)
	sockets := 0
	for _, target := range targets {
		if strings.HasPrefix(target, "unix ") {
			sockets++
		}
	}
	if sockets < 2 {
		t.Errorf("sockets of engine and broker: %q, want both", targets)
	}
	for _, root := range []string{data, run.TempDir} {
		if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			targets = append(targets, "file "+path)
			return err
		}); err != nil && !errors.Is(err, fs.ErrNotExist) { // the engine's parts come and go
			t.Fatal(err)
		}
	}
	child.Env = append(child.Env, strangerEnv+"="+strings.Join(targets, "\n"))
	child.WaitDelay = time.Minute
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	yields := map[string]int{}
	for line := range strings.Lines(string(out)) {
		target, got, _ := strings.Cut(strings.TrimSpace(line), ": ")
		kind, name, _ := strings.Cut(target, " ")
		want := "no permission"
		if kind == "tcp" && name == run.HTTPAddress {
			want = "HTTP/1.1 200"
		}
		if got != want {
			t.Errorf("another user gets of %s: %q, want %q", target, got, want)
		}
		yields[kind+": "+got]++
		if kind != "file" {
			t.Log(strings.TrimSpace(line))
		}
	}
	t.Log(yields)
	if yields["tcp: HTTP/1.1 200"] != 1 {
		t.Errorf("HTTP answered %d times, want once", yields["tcp: HTTP/1.1 200"])
	}
}
